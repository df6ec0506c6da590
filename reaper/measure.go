package reaper

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Figures are medians of what it takes until a child runs. The rates are what `make bench` compares: both divide by
// a bare start of the same program in the same run.
type Figures struct {
	Bare, Cold, Warm time.Duration
}

// ColdRatio is a keeper started for the command against a bare start.
func (f Figures) ColdRatio() float64 { return float64(f.Cold) / float64(f.Bare) }

// WarmRatio is the spare against a bare start.
func (f Figures) WarmRatio() float64 { return float64(f.Warm) / float64(f.Bare) }

// Measure starts n children in each of the three ways, by turns, in records below dir. env needs a PATH with the
// program true.
func Measure(ctx context.Context, dir string, env []string, n int) (Figures, error) {
	cold, err := New(Options{Dir: dir + "/cold", Spares: -1})
	if err != nil {
		return Figures{}, err
	}
	warm, err := New(Options{Dir: dir + "/warm"})
	if err != nil {
		return Figures{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- warm.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	var bare, colds, warms []time.Duration
	for i := range n {
		took, err := timed(func() (func(), error) { return startBare(env) })
		bare = append(bare, took)
		for _, way := range []struct {
			r    *Reaper
			list *[]time.Duration
		}{{cold, &colds}, {warm, &warms}} {
			if err != nil {
				return Figures{}, err
			}
			way.r.awaitWarm(ctx)
			took, err = timed(func() (func(), error) { return way.r.startMeasured(ctx, env, i) })
			*way.list = append(*way.list, took)
		}
		if err != nil {
			return Figures{}, err
		}
	}
	return Figures{Bare: median(bare), Cold: median(colds), Warm: median(warms)}, nil
}

// timed takes the time of the start alone; what it gives is waited for outside of it.
func timed(start func() (wait func(), err error)) (time.Duration, error) {
	begin := time.Now()
	wait, err := start()
	took := time.Since(begin)
	if err == nil {
		wait()
	}
	return took, err
}

func startBare(env []string) (func(), error) {
	child, err := StartChild([]string{"true"}, env, "", nil, nil)
	if err != nil {
		return nil, err
	}
	return func() { _, _, _ = child.Wait() }, nil
}

func (r *Reaper) startMeasured(ctx context.Context, env []string, i int) (func(), error) {
	p, err := r.Start(ctx, Spec{
		ID: fmt.Sprintf("measure-%d", i), Argv: []string{"true"}, Env: env, Lifetime: EndsWithDaemon, Output: io.Discard,
	})
	if err != nil {
		return nil, err
	}
	return func() { p.Record() }, nil
}

// awaitWarm waits until the spare has had the time to become warm, which nothing tells.
func (r *Reaper) awaitWarm(ctx context.Context) {
	const warmUp = 100 * time.Millisecond
	if r.spares == 0 {
		return
	}
	for r.Warm() < r.spares && ctx.Err() == nil {
		<-time.After(time.Millisecond)
	}
	<-time.After(warmUp)
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
