package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"gatewayd/config"
	"gatewayd/gateway/api"
	"gatewayd/gateway/provider"
	"gatewayd/internal/doctor"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// house is the home as the doctor looks at it. closed lets go of what it took to tell.
func (c *cli) house() (h *doctor.House, closed func(), err error) {
	home, err := c.homeDir()
	if err != nil {
		return nil, nil, err
	}
	loaded, broken := c.load()
	h = &doctor.House{Home: home, Loaded: loaded, Broken: broken, Version: version, Revision: thisBuild().Revision, Now: time.Now(), Daemon: c.askDaemon()}
	closed = func() {}
	isDir := mustBeDir("home ", home) == nil // what is none has no files
	if isDir {
		h.Databases = []doctor.Database{{Label: "state.db", Path: storePath(config.Config{Home: home})}}
	}
	if broken != nil {
		h.Backups = backupDir(config.Config{Home: home})
		return h, closed, nil
	}
	h.Backups, h.Stop, h.User = backupDir(loaded.Config), longestStop(loaded.Config), userName(loaded.Environ)
	if isDir {
		h.Volumes = volumesOf(loaded.Config)
		var boards []doctor.Database
		boards, closed, h.Listing = boardsToExamine(loaded.Config)
		h.Databases = append(h.Databases, boards...)
	}
	h.Round = failedRound(loaded.Config)
	h.Units = c.units()
	h.Model = func(ctx context.Context) (doctor.Model, error) { return reachModel(ctx, loaded) }
	h.Lanes = func() ([]doctor.Lane, error) { return lanesToExamine(loaded) }
	h.Run = func(ctx context.Context, argv ...string) (string, error) { return output(ctx, loaded, argv) }
	return h, closed, nil
}

func boardsToExamine(cfg config.Config) (found []doctor.Database, closed func(), err error) {
	closed = func() {}
	if _, err := os.Stat(cfg.Kanban.Root); errors.Is(err, fs.ErrNotExist) {
		return nil, closed, nil
	}
	if err := mustBeDir("board root ", cfg.Kanban.Root); err != nil {
		return nil, closed, err
	}
	root, err := kanban.OpenRoot(cfg.Kanban.Root)
	if err != nil {
		return nil, closed, err
	}
	boards, err := root.Boards()
	for _, b := range boards {
		found = append(found, doctor.Database{Label: kanban.BoardLabel(b.Slug), Path: root.DBPath(b.Slug), Board: true})
	}
	return found, func() { root.Close() }, err
}

// askDaemon asks once, however many want to know.
func (c *cli) askDaemon() func(context.Context) (doctor.Running, error) {
	ask := sync.OnceValues(func() (r doctor.Running, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), healthTime)
		defer cancel()
		cl, err := c.dial()
		if err != nil {
			return r, err
		}
		var s status
		var health struct{ Checks []api.Check }
		if err = cl.call(ctx, http.MethodGet, "/api/status", nil, &s); err != nil {
			return r, err
		}
		if err = cl.call(ctx, http.MethodGet, "/health/detailed", nil, &health); err != nil {
			return r, err
		}
		r = doctor.Running{PID: s.PID, Version: s.Build.Version, Revision: s.Build.Revision}
		for _, p := range s.Files.Paths {
			if p.Stranded > 0 {
				r.Stranded = append(r.Stranded, p.Path)
			}
		}
		for _, ch := range health.Checks {
			if ch.Status == "degraded" || ch.Status == "failed" {
				r.Troubles = append(r.Troubles, fmt.Sprintf("%s is %s: %s", ch.Name, ch.Status, ch.Reason))
			}
		}
		return r, nil
	})
	return func(context.Context) (doctor.Running, error) { return ask() }
}

// units are the user's service and the machine's, as they would be written now.
func (c *cli) units() (units []doctor.Unit) {
	for _, system := range []bool{false, true} {
		i := &installation{cli: c, system: system}
		if i.find() != nil {
			continue
		}
		u := doctor.Unit{Path: i.path, System: system}
		for _, alone := range []bool{false, true} {
			i.alone = alone
			unit, err := i.unit()
			if err != nil {
				u.Err = err
				continue
			}
			u.Wanted = append(u.Wanted, unit.Text())
		}
		units = append(units, u)
	}
	return units
}

// reachModel asks the server that is configured; one that was found on its usual port has just answered.
func reachModel(ctx context.Context, loaded config.Loaded) (doctor.Model, error) {
	models := newModels(loaded, nil, nil)
	answers, how := models.choose(ctx)
	about := answers.Describe()
	m := doctor.Model{Name: about.Name, URL: about.BaseURL, How: how, Window: about.ContextLength, From: about.WindowFrom}
	if about.Offline {
		m.URL = ""
		return m, nil
	}
	if loaded.Model.BaseURL == "" {
		return m, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	reached, err := provider.Reach(ctx, models.options())
	m.Asked, m.Listed, m.Took = err == nil, reached.Listed, reached.Took
	if m.Window == 0 && reached.Window > 0 {
		m.Window, m.From = reached.Window, "listed by the server"
	}
	return m, err
}

// reachTime is how long a model's server may take to list its models: one that loads a model first answers its list all the same.
const reachTime = 5 * time.Second

func lanesToExamine(loaded config.Loaded) (found []doctor.Lane, err error) {
	lanes, err := worker.NewLanes(loaded.Kanban, loaded.KeyVariables()...)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(loaded.Kanban.Lanes)) {
		lane, _ := lanes.Lookup(name)
		l := doctor.Lane{Name: name, Preset: string(lane.Preset)}
		if program := lane.MissingProgram(loaded.Environ); program != "" {
			l.Missing, l.MissingRemedy = program+" "+lane.MissingWhat(program), lane.MissingRemedy(program)
		}
		found = append(found, l)
	}
	return found, nil
}
