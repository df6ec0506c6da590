package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/gateway"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/notify"
	"gatewayd/registry"
	"gatewayd/sessiondb"
)

// status is what the daemon says of itself, at GET /api/status and by `gatewayd status`.
type status struct {
	Running    bool             `json:"running"` // true: who does not run says nothing
	PID        int              `json:"pid"`
	Build      build            `json:"build"`
	Home       string           `json:"home"`
	Addr       string           `json:"addr"`
	Started    time.Time        `json:"started"`
	Unit       string           `json:"unit,omitempty"` // of systemd, in which it runs
	Model      modelStatus      `json:"model"`
	Decisions  []decision       `json:"decisions"`
	Dispatcher dispatch.Status  `json:"dispatcher"`
	Notifier   notify.Status    `json:"notifier"`
	Gateway    gateway.Status   `json:"gateway"`
	LastRun    gateway.Receipt  `json:"last_run"`
	Store      sessiondb.Health `json:"store"`
	Files      registry.Stats   `json:"files"`
	Backups    backupStatus     `json:"backups"`
	Warnings   []warning        `json:"warnings"`
}

// decision is one thing that the daemon settled at its start, and why.
type decision struct {
	Thing string `json:"thing"`
	Value string `json:"value"`
	Why   string `json:"why,omitempty"`
}

func (d *daemon) status() status {
	return status{
		Running: true, Unit: procfs.Unit(), Model: d.modelStatus(), Warnings: d.warned(), Backups: d.backupStatus(),
		PID: os.Getpid(), Build: thisBuild(), Home: d.config.Home, Addr: d.listener.Addr().String(), Started: d.started,
		Decisions: d.decided(), Dispatcher: d.dispatcher.StatusWithLocks(), Notifier: d.notifier.Status(), Gateway: d.gateway.Status(), LastRun: d.gateway.Receipt(), Store: d.store.Health(), Files: d.registry.Stats(),
	}
}

func (c *cli) statusVerb() *cobra.Command {
	var all bool
	cmd := c.readVerb(&cobra.Command{
		Use: "status", Short: "Say whether the daemon runs and what it is doing", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.statusOf(cmd.Context())
			if problem.Is(err, problem.NotRunning) {
				c.noteForeignDispatcher(err)
				return errors.Join(err, c.absent(cmd.Context()))
			}
			if err != nil {
				return err
			}
			return c.emit(s, func(w io.Writer) {
				if all {
					printStatus(w, s)
					return
				}
				printScreen(w, s, screenOf(w))
			})
		},
	})
	cmd.Flags().BoolVar(&all, "all", false, "everything: what was decided at the start, every board and lane, each turn that was in flight")
	return cmd
}

// printStatus is all that the daemon says of itself.
func printStatus(w io.Writer, s status) {
	fmt.Fprintf(w, "running, pid %d, up %s, http://%s, %s\n\n", s.PID, time.Since(s.Started).Round(time.Second), s.Addr, unitWords(s.Unit))
	printDecisions(w, s.Decisions)
	d := s.Dispatcher
	if trouble := s.Store.Trouble(); trouble != "" {
		fmt.Fprintf(w, "\nstate.db: %s\n", text(trouble))
	}
	fmt.Fprintf(w, "\nturns: %d running, %d waiting, %d ended (%d failed, %d interrupted)\n",
		len(s.Gateway.Running), s.Gateway.Queued, s.Gateway.Turns, s.Gateway.Failed, s.Gateway.Interrupted)
	for _, t := range s.Gateway.Running {
		fmt.Fprintf(w, "  %s\n", turnWords(t))
	}
	printReceipt(w, s.LastRun)
	printDispatcher(w, d)
	printNotifier(w, s.Notifier)
	fmt.Fprintf(w, "backups: %s\n", text(backupWords(s.Backups, time.Now())))
	printWarnings(w, s.Warnings)
}

func printDecisions(w io.Writer, decisions []decision) {
	table(w, func(row func(...any)) {
		for _, d := range decisions {
			row(d.Thing, d.Value, d.Why)
		}
	})
}

// noteForeignDispatcher says beside the refusal that the boards are served all the same: by the daemon of another home, or
// by Hermes.
func (c *cli) noteForeignDispatcher(err error) {
	if !problem.Is(err, problem.NotRunning) {
		return
	}
	loaded, err := c.load()
	if err != nil {
		return
	}
	root, err := kanban.OpenRoot(loaded.Kanban.Root)
	if err != nil {
		return
	}
	defer root.Close()
	if lock := dispatch.StateOfRoot(root); lock.Held {
		fmt.Fprintf(c.std.err, "note: the boards of %s are dispatched by %s\n", line(root.Dir()), lockWords(lock))
	}
}
