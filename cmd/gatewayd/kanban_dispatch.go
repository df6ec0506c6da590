package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"gatewayd/kanban/dispatch"
)

// dispatchVerb asks the daemon for a tick at once. There is no need to: it is woken by whatever happens.
func (v *boardVerbs) dispatchVerb() *cobra.Command {
	return v.readVerb(&cobra.Command{
		Use: "dispatch", Short: "Have the running daemon look after all boards at once, and say what it did", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := v.openRoot()
			if err != nil {
				return err
			}
			if err := h.actor().May(cmd.Name(), ""); err != nil {
				return err
			}
			cl, err := v.dial()
			if err != nil {
				return err
			}
			var r dispatch.Report
			if err := cl.call(cmd.Context(), http.MethodPost, "/api/dispatch", nil, &r); err != nil {
				return err
			}
			return v.emit(r, func(w io.Writer) { printReport(w, r) })
		},
	})
}

// printReport says in a line for each card what became of it, and how many wait and why.
func printReport(w io.Writer, r dispatch.Report) {
	quiet := true
	for _, part := range []struct {
		what  string
		items []dispatch.Item
	}{
		{"started", r.Spawned},
		{"completed", r.Completed},
		{"crashed", r.Crashed},
		{"timed out", r.TimedOut},
		{"gave no sign of life", r.Stale},
		{"released", r.Reclaimed},
		{"rate limited", r.RateLimited},
		{"ended without a word", r.Violations},
		{"could not be started", r.SpawnFailed},
		{"blocked", r.AutoBlocked},
		{"ready now", r.Promoted},
		{"woken", r.Woken},
		{"worker ended", r.Dismissed},
		{"worker not ended yet", r.Deferred},
		{"repaired", r.Reconciled},
		{"given to the default lane", r.Assigned},
		{"taken over", r.Adopted},
	} {
		for _, item := range part.items {
			quiet = false
			fmt.Fprintf(w, "%s/%s  %s  %s\n", line(string(item.Board)), line(item.Task), part.what, line(item.Lane))
		}
	}
	for _, f := range r.Failed {
		quiet = false
		fmt.Fprintf(w, "board %s: %s\n", line(string(f.Board)), line(f.Error))
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Held)) {
		quiet = false
		fmt.Fprintf(w, "%s waiting: %s; see `gatewayd why`\n", many(r.Held[reason], "card"), reason)
	}
	if quiet {
		fmt.Fprintf(w, "nothing to do on %s\n", many(r.Boards, "board"))
	}
}
