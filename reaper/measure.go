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
		for _, way := range []struct {
			list  *[]time.Duration
			start func() (wait func(), err error)
		}{
			{&bare, func() (func(), error) { return startBare(env) }},
			{&colds, func() (func(), error) { return cold.startMeasured(ctx, env, i) }},
			{&warms, func() (func(), error) { return warm.startMeasured(ctx, env, i) }},
		} {
			took, err := warm.timed(way.start)
			if err != nil {
				return Figures{}, err
			}
			*way.list = append(*way.list, took)
		}
	}
	return Figures{Bare: median(bare), Cold: median(colds), Warm: median(warms)}, nil
}

// timed takes the time of the start alone, out of rest: the spare has become warm, and the processor is as cold for
// each of the three ways. What the start gives is waited for outside of the time.
func (r *Reaper) timed(start func() (wait func(), err error)) (time.Duration, error) {
	const rest = 60 * time.Millisecond
	for r.Warm() == 0 {
		<-time.After(time.Millisecond)
	}
	<-time.After(rest)
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

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
