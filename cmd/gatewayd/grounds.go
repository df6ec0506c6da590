package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"gatewayd/config"
	"gatewayd/gateway/api"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
	"gatewayd/internal/volume"
)

// heapShare of a control group's limit is the runtime's own bound, above which it collects harder: the rest is for what is not the
// runtime's, pages of databases and a worker's start above all.
const heapShare = 0.9

// boundMemory tells the runtime of the limit of the container or service that this process is in. Without that the heap may grow to twice
// what lives, past a limit that would have been enough, and the kernel kills.
func (d *daemon) boundMemory(context.Context) error {
	if set, ok := config.Environ(d.std.environ).Lookup("GOMEMLIMIT"); ok {
		d.decide("memory", set, "GOMEMLIMIT")
		return nil
	}
	ceiling := procfs.MemoryCeiling()
	if ceiling == 0 {
		return nil
	}
	bound := int64(heapShare * float64(ceiling))
	debug.SetMemoryLimit(bound)
	d.decide("memory", fmt.Sprintf("%d MiB", bound>>20), fmt.Sprintf("nine tenths of the %d MiB of its control group; GOMEMLIMIT sets another", ceiling>>20))
	return nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// volumesOf gives what the home, its store and its boards lie on, each mount once.
func volumesOf(cfg config.Config) (found []volume.Volume) {
	for _, dir := range []string{cfg.Home, filepath.Dir(storePath(cfg)), cfg.Kanban.Root} {
		v, err := volume.Of(dir)
		if err != nil || slices.ContainsFunc(found, func(f volume.Volume) bool { return f.Mount == v.Mount }) {
			continue // a table that cannot be read says nothing against a directory
		}
		found = append(found, v)
	}
	return found
}

// judgeVolumes warns of a place that does not keep what is stored there.
func (d *daemon) judgeVolumes(context.Context) error {
	if _, err := config.Temporary(); err != nil {
		d.config.Warnings = append(d.config.Warnings, temporaryWarning(err))
	}
	d.volumes = volumesOf(d.config.Config)
	for _, v := range d.volumes {
		if what, remedy := v.Trouble(); what != "" {
			d.config.Warnings = append(d.config.Warnings, what+"; "+remedy)
		}
	}
	return nil
}

// temporaryWarning: nothing is lost without TMPDIR, because SQLite was given the home.
func temporaryWarning(err error) string {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return err.Error()
	}
	return fmt.Sprintf("%s %s (%v): what the databases have no memory for is kept in the home; %s", p.Thing, p.What, p.Err, p.Remedy)
}

// checkVolumes are the lines of /health/detailed about places; a good one is none.
func (d *daemon) checkVolumes() (checks []api.Check) {
	for _, v := range d.volumes {
		if what, remedy := v.Trouble(); what != "" {
			checks = append(checks, api.Check{Name: "volume", Status: "degraded", Reason: what + "; " + remedy})
		}
	}
	return checks
}

// heldElsewhere: two daemons of one home are a mistake of whoever set them up, and trying again does not mend it.
func heldElsewhere(err error) error { return asConfig(err, problem.Busy) }

// refusedStart makes what a supervisor cannot mend by starting again a matter of configuration: files that this
// user may not write. A full volume is none: space comes back, and then nobody should have to start the daemon by hand.
func refusedStart(err error) error { return asConfig(err, problem.Denied) }

// asConfig gives a problem of one of these kinds the kind whose exit code says that a person has to act.
func asConfig(err error, kinds ...problem.Kind) error {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || !slices.Contains(kinds, p.Kind) {
		return err
	}
	said := *p
	said.Kind = problem.Config
	return &said
}
