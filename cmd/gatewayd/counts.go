package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// countsEvery bounds how often the service manager hears a new line, however fast the counts change.
const countsEvery = 2 * time.Second

// keepCounts tells the service manager what the daemon is busy with, whenever that is something else than before.
func (d *daemon) keepCounts(ctx context.Context) {
	for told := ""; d.notify.Heard() && ctx.Err() == nil; wait(ctx, countsEvery) {
		if line := d.countsNow(); line != told && !d.leaves() {
			_ = d.notify.Status(line)
			told = line
		}
	}
}

func (d *daemon) tellCounts() { _ = d.notify.Status(d.countsNow()) }

// countsNow is the daemon in one line.
func (d *daemon) countsNow() string {
	running, ready, boards := 0, 0, d.dispatcher.Status().Boards
	for _, b := range boards {
		running, ready = running+b.Running, ready+b.Ready
	}
	turns := d.gateway.Status()
	line := fmt.Sprintf("%s running, %d waiting; cards: %d running, %d ready on %s", countOf(len(turns.Running), "turn", "turns"), turns.Queued,
		running, ready, countOf(len(boards), "board", "boards"))
	if n := d.troubles(); n > 0 {
		line += "; " + countOf(n, "warning", "warnings") + ": gatewayd status"
	}
	if silent := d.watchdog.Silent(); len(silent) > 0 {
		line = "no sign of life from " + strings.Join(silent, ", ") + "; " + line
	}
	return line
}

// troubles counts what a person should look at: warnings of the start, and parts that are not as they should be.
func (d *daemon) troubles() int {
	n := len(d.live.Load().Warnings)
	if d.store.Health().Trouble() != "" {
		n++
	}
	s := d.dispatcher.Status()
	if s.Stuck != nil && !s.Stuck.Kept {
		n++
	}
	for _, b := range s.Boards {
		if b.State == "disabled" || b.State == "unavailable" {
			n++
		}
	}
	return n
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
