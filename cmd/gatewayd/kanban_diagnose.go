package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/worker"
)

// diagnosticsVerb needs no daemon: what is found is in the board, in the processes of this machine, and in the lanes of
// the configuration.
func (v *boardVerbs) diagnosticsVerb() *cobra.Command {
	var severity, task string
	cmd := v.readVerb(&cobra.Command{
		Use: "diagnostics", Aliases: []string{"diag"}, Short: "Say what a person should look at on a board, the worst first", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			least := kanban.Severity(severity)
			if severity != "" && !slices.Contains(kanban.Severities(), least) {
				return usagef("--severity %q is not known; it is one of %s", severity, join(kanban.Severities()))
			}
			return v.onBoard(cmd.Context(), func(ctx context.Context, h house, b *kanban.Board) error {
				if task != "" {
					if _, err := b.Task(ctx, task); err != nil {
						return err
					}
				}
				found, err := diagnose(ctx, h, b)
				if err != nil {
					return err
				}
				found = slices.DeleteFunc(found, func(d kanban.Diagnostic) bool {
					return task != "" && d.Task != task || !d.Severity.AtLeast(least)
				})
				v.none(len(found), "board %s: nothing to look at", b.Slug())
				return v.emit(found, func(w io.Writer) {
					for _, d := range found {
						printDiagnostic(w, d)
					}
				})
			})
		},
	})
	cmd.Flags().StringVar(&severity, "severity", "", "only findings of this severity or worse: warning, error, critical")
	cmd.Flags().StringVar(&task, "task", "", "only findings about this card")
	return cmd
}

func diagnose(ctx context.Context, h house, b *kanban.Board) ([]kanban.Diagnostic, error) {
	lanes, err := worker.NewLanes(h.Kanban, h.KeyVariables()...)
	if err != nil {
		return nil, err
	}
	return dispatch.Diagnose(ctx, b, h.Kanban, lanes, h.Environ)
}

func printDiagnostic(w io.Writer, d kanban.Diagnostic) {
	about := ""
	if d.Task != "" {
		about = line(d.Task) + ": "
	}
	fmt.Fprintf(w, "%-8s  %s%s\n          %s\n", d.Severity, about, line(d.Title), line(d.Detail))
	fmt.Fprintf(w, "          %s since %s\n", d.Kind, epoch(d.First))
	for _, a := range d.Actions {
		sign, command := "-", a.Payload["command"]
		if a.Suggested {
			sign = "→"
		}
		if command != "" {
			command = ": " + command
		}
		fmt.Fprintf(w, "          %s %s%s\n", sign, line(a.Label), line(command))
	}
}
