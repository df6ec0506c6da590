package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"gatewayd/gateway"
	"gatewayd/internal/lastrun"
	"gatewayd/internal/problem"
)

// begin writes down that this run has begun, and says how the last one ended. A start that fails before it leaves the record of the
// last run as it is.
func (d *daemon) begin() {
	diary, err := lastrun.Open(d.config.Home, version)
	if err != nil {
		d.log.Warn("the record of this run cannot be written; the next start will not know how it ended", "error", err)
	}
	d.diary = diary
	receipt := d.gateway.Receipt()
	if !receipt.Run.Known() {
		return
	}
	level := d.log.Info
	if !receipt.Run.Orderly() {
		level = d.log.Warn
	}
	level("last run", "how", receipt.Run.How, "ended", receipt.Sentence, "pid", receipt.Run.PID, "signal", receipt.Run.Signal,
		"turns_in_flight", len(receipt.Turns), "messages_waiting", receipt.Waiting)
}

// stopping writes down what asked this run to end, before it waits for anybody.
func (d *daemon) stopping(sig os.Signal) {
	if sig == syscall.SIGUSR1 {
		d.restart.Store(true)
	}
	if err := d.diary.Stopping(sig.String()); err != nil {
		d.log.Warn("the stop cannot be written down", "error", err)
	}
}

// over writes down how this run ends, and gives the error that the process ends with.
func (d *daemon) over(err error) error {
	how, detail := lastrun.Stopped, ""
	switch {
	case err != nil:
		how, detail = lastrun.Failed, err.Error()
	case d.restart.Load():
		how = lastrun.Restart
		err = restartWanted()
	}
	if how != lastrun.Failed {
		if serr := d.starts.Clean(); serr != nil {
			d.log.Warn("the next start may take this end for a death", "error", serr)
		}
	}
	if werr := d.diary.End(how, exitCode(err), detail); werr != nil {
		return errors.Join(err, werr)
	}
	return err
}

func restartWanted() error {
	return &problem.Error{Kind: problem.Restart, Thing: "gatewayd", What: "was asked to be started again", Fate: "everything is stored"}
}

// printReceipt says how the last run ended and what became of what was in flight.
func printReceipt(w io.Writer, r gateway.Receipt) {
	if !r.Run.Known() {
		return
	}
	fmt.Fprintf(w, "\nlast run: %s\n", text(r.Sentence))
	for _, t := range r.Turns {
		fmt.Fprintf(w, "  %s %s: %s, %s\n", line(t.Session), t.TurnID, t.Decision, text(t.Outcome))
	}
	if r.Waiting > 0 {
		fmt.Fprintf(w, "  %d accepted messages had not begun and were taken up\n", r.Waiting)
	}
}
