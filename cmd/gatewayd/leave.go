package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gatewayd/internal/lastrun"
	"gatewayd/internal/stacks"
)

const (
	// leaveEvery is how often the service manager hears that the end goes on, each time for leaveMore: a daemon that dies on the way
	// is not waited for much longer.
	leaveEvery = 5 * time.Second
	leaveMore  = 30 * time.Second
)

// leave is the end of a daemon that was asked to stop.
type leave struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// takeLeave tells the service manager how the drain goes, and ends the process where it does not end by itself in the longest time
// that a stop may take. systemd would kill it half a minute later, without a word of what it hung on.
func (d *daemon) takeLeave() *leave {
	ctx, cancel := context.WithCancel(context.Background())
	l := &leave{cancel: cancel, done: make(chan struct{})}
	until := time.Now().Add(longestStop(d.config.Config))
	go func() {
		defer close(l.done)
		for ; ctx.Err() == nil; wait(ctx, leaveEvery) {
			if time.Now().After(until) {
				d.fall(exitFailed, "the stop did not end in "+longestStop(d.config.Config).String())
				return
			}
			_ = d.notify.Extend(leaveMore)
			_ = d.notify.Status(d.leaving(until))
		}
	}()
	return l
}

// end says that the process is about to end by itself.
func (l *leave) end() {
	if l == nil {
		return
	}
	l.cancel()
	<-l.done
}

func (d *daemon) leaving(until time.Time) string {
	select {
	case <-d.talked:
		return "stopping: conversations have ended, files are closed, at most until " + until.Format(time.TimeOnly)
	default:
		return fmt.Sprintf("stopping: %s until %s at the latest; workers stay at work", countOf(len(d.gateway.Status().Running), "turn", "turns"), until.Format(time.TimeOnly))
	}
}

// giveUp ends a daemon of which a part hangs, so that it is started again. One that stops already is ended by its own bound.
func (d *daemon) giveUp(silent []string) {
	if !d.leaves() {
		d.fall(exitRestart, "no sign of life from "+strings.Join(silent, ", "))
	}
}

// fallMost is how long a daemon that ends itself waits for what it writes down. What hangs may be what it writes to: a log that nobody
// reads, a disk.
const fallMost = 5 * time.Second

// fall ends the process at once: what was under way is recovered at the next start exactly as after a power cut.
func (d *daemon) fall(code int, why string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_ = d.diary.End(lastrun.Failed, code, why)
		d.dumpStacks(why)
		d.log.Error("ended at once", "reason", why, "code", code)
	}()
	late := time.NewTimer(fallMost)
	defer late.Stop()
	select {
	case <-said:
	case <-late.C:
	}
	d.exit(code)
}

// dumpStacks writes down what every goroutine does, beside the log.
func (d *daemon) dumpStacks(why string) {
	path, err := stacks.Write(filepath.Join(d.config.Home, "logs"), why, time.Now())
	if err != nil {
		d.log.Error("the stacks could not be written", "reason", why, "error", err)
		return
	}
	d.log.Warn("stacks written", "path", path, "reason", why)
}
