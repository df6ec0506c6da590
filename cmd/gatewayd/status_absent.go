package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"gatewayd/internal/lastrun"
	"gatewayd/internal/procfs"
)

// modelStatus is who answers where a conversation has no model of its own.
type modelStatus struct {
	Name       string `json:"name,omitempty"`
	URL        string `json:"url,omitempty"`
	Window     int    `json:"context_length,omitempty"` // tokens
	WindowFrom string `json:"context_from,omitempty"`
	Offline    bool   `json:"offline"`
}

func (d *daemon) modelStatus() modelStatus {
	m := d.describeModel()
	return modelStatus{Name: m.Name, URL: m.BaseURL, Window: m.ContextLength, WindowFrom: m.WindowFrom, Offline: m.Offline}
}

// warning is what a person should know, with what to do about it.
type warning struct {
	Says   string `json:"says"`
	Remedy string `json:"remedy,omitempty"`
}

// warned are the parts that are not well, the failed ones first, the backups, the warnings of the configuration in force and of the
// home, and last the boards: there may be many, and they have lines of their own.
func (d *daemon) warned() []warning {
	var failed, degraded, boards []warning
	for _, ch := range d.checks(context.Background()) {
		warn := warning{Says: ch.Name + " is " + ch.Status + ": " + ch.Reason, Remedy: "gatewayd doctor"}
		switch {
		case ch.Status != "degraded" && ch.Status != "failed":
		case strings.HasPrefix(ch.Name, boardCheck):
			boards = append(boards, warn)
		case ch.Status == "failed":
			failed = append(failed, warn)
		default:
			degraded = append(degraded, warn)
		}
	}
	if says := failedRound(d.config.Config); says != "" {
		degraded = append(degraded, warning{Says: "backups: " + says, Remedy: "mend what it says, then `gatewayd backup`"})
	}
	for _, says := range append(d.live.Load().Warnings, d.home.Warnings...) {
		degraded = append(degraded, warning{Says: says})
	}
	return slices.Concat([]warning{}, failed, degraded, boards)
}

// drift is a daemon that goes on with another program than this one.
func drift(s status) (all []warning) {
	const remedy = "restart the daemon; workers stay at work"
	this := thisBuild()
	if _, replaced, err := procfs.Program(s.PID); err == nil && replaced {
		return []warning{{"its program was replaced or removed since it was started", remedy}}
	}
	if s.Build.Version != this.Version || s.Build.Revision != this.Revision {
		return []warning{{fmt.Sprintf("it is %s %s, and this program is %s %s", s.Build.Version, s.Build.Revision, this.Version, this.Revision), remedy}}
	}
	return nil
}

// idleness is `gatewayd status` where no daemon runs.
type idleness struct {
	Running bool         `json:"running"` // false
	Home    string       `json:"home"`
	LastRun *lastrun.Run `json:"last_run,omitempty"`
	How     string       `json:"how,omitempty"` // the last run ended, for people
	Unit    string       `json:"unit,omitempty"`
}

// absent says how the last run ended and how its unit is, beside the refusal.
func (c *cli) absent(ctx context.Context) error {
	home, err := c.homeDir()
	if err != nil {
		return err
	}
	a := idleness{Home: home, Unit: c.unitState(ctx)}
	if run := lastrun.Read(home); run.Known() {
		a.LastRun, a.How = &run, run.String()
	}
	return c.emit(a, func(io.Writer) {
		if a.LastRun != nil {
			at := a.LastRun.Seen
			if a.LastRun.Ended != nil {
				at = *a.LastRun.Ended
			}
			fmt.Fprintf(c.std.err, "last run: %s; pid %d, began %s, last heard of %s\n", text(a.How), a.LastRun.PID, when(a.LastRun.Began), when(at))
		}
		if a.Unit != "" {
			fmt.Fprintf(c.std.err, "%s\n", text(a.Unit))
		}
	})
}

// unitTime is how long systemd may take to say how a unit is.
const unitTime = 2 * time.Second

// unitState is how systemd has the installed unit; "" where none is installed.
func (c *cli) unitState(ctx context.Context) string {
	for _, system := range []bool{false, true} {
		i := &installation{cli: c, system: system}
		if i.find() != nil {
			continue
		}
		if _, err := os.Stat(i.path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, unitTime)
		defer cancel()
		said, err := output(ctx, i.loaded, i.systemctl("show", "--property=ActiveState,Result", "--value", i.name))
		if err != nil {
			return fmt.Sprintf("unit %s is installed; systemd does not say how it is: %v", i.name, err)
		}
		return fmt.Sprintf("unit %s is %s", i.name, strings.Join(strings.Fields(said), ", "))
	}
	return ""
}

// statusOf asks the daemon, and tells of a daemon that is not this program.
func (c *cli) statusOf(ctx context.Context) (s status, err error) {
	cl, err := c.dial()
	if err != nil {
		return s, err
	}
	err = cl.call(ctx, http.MethodGet, "/api/status", nil, &s)
	if err == nil {
		s.Warnings = append(drift(s), s.Warnings...)
	}
	return s, err
}
