package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"gatewayd/config"
	"gatewayd/internal/lastrun"
	"gatewayd/internal/mutation"
)

// errAskedToStop ends a start that was told to stop before it began.
var errAskedToStop = errors.New("asked to stop")

// startBound is what a start may take once its wait is over, as the unit's TimeoutStartSec.
const startBound = 2 * time.Minute

func stormOf(r config.Respawn) lastrun.Storm {
	return lastrun.Storm{Limit: r.Limit, Window: r.Window, First: r.FirstWait, Longest: r.LongestWait}
}

// calm has a start wait that follows too many others whose runs died. Nothing is open yet but the home's lock, so the wait costs
// nothing and a second daemon cannot begin beside it. Somebody who starts it in a terminal is no storm.
func (d *daemon) calm(ctx context.Context) (err error) {
	var start lastrun.Start
	if d.starts, start, err = lastrun.Arrive(d.config.Home, d.started, stormOf(d.config.Respawn)); err != nil {
		d.log.Warn("the list of starts is not as it was left; a storm of starts may go unnoticed", "error", err)
	}
	if start.Wait == 0 || d.foreground && isTerminal(d.std.in) {
		return nil
	}
	d.log.Warn("starts follow each other too fast, this one waits", "starts", start.Count, "window", d.config.Respawn.Window.String(), "wait", start.Wait.String(),
		"until", start.Until().Format(time.RFC3339), "settings", "respawn.*", "last_run", lastrun.Read(d.config.Home).String())
	_ = d.notify.Extend(start.Wait + startBound)
	_ = d.notify.Status(stormWords(start))
	if err := d.rest(ctx, start.Wait); err != nil {
		return errors.Join(err, d.starts.Clean())
	}
	_ = d.notify.Status("starting")
	d.decide("start", "waited "+start.Wait.String(), fmt.Sprintf("%d starts in %s followed runs that had died", start.Count, d.config.Respawn.Window))
	return nil
}

// listenEarly gives a context that a stop ends while the parts are made, so that it is an orderly one, and a function that gives the stop, if
// there was one, and leaves what comes later to signals. A part that waits for nothing is finished first; a second signal waits for nobody.
func (d *daemon) listenEarly(ctx context.Context) (context.Context, func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	if !mutation.On("start-is-deaf") {
		signal.Notify(d.asked, os.Interrupt, syscall.SIGTERM, syscall.SIGUSR1)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for first := (time.Time{}); ; {
			select {
			case <-over:
				return
			case sig := <-d.asked:
				if !first.IsZero() && time.Since(first) > echo {
					d.exit(exitFailed)
				}
				d.log.Info("asked to stop before the start was done", "signal", sig.String(), "again", "a second signal stops at once")
				first = time.Now()
				cancel(earlyStop(sig))
			}
		}
	}()
	return ctx, sync.OnceValue(func() error {
		close(over)
		<-ended
		if ctx.Err() == nil {
			return nil
		}
		return context.Cause(ctx)
	})
}

func earlyStop(sig os.Signal) error {
	if sig == syscall.SIGUSR1 {
		return restartWanted()
	}
	return errAskedToStop
}

// rest waits, or until a signal ends the start.
func (d *daemon) rest(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stormWords say what a daemon is doing that does nothing yet.
func stormWords(s lastrun.Start) string {
	return fmt.Sprintf("waits until %s, because it was started %d times after runs that had died", s.Until().Format(time.TimeOnly), s.Count)
}

// stormOfHome gives the words of a start that waits now, "" where none does.
func stormOfHome(home string) string {
	if s, ok := lastrun.LastStart(home); ok && s.Wait > 0 && time.Now().Before(s.Until()) {
		return stormWords(s)
	}
	return ""
}
