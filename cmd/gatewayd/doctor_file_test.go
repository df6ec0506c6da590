package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/doctor"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// A database that is not there is new, unless something beside it says that it was.
func TestDoctorTellsALostDatabaseFromANewOne(t *testing.T) {
	for _, file := range []struct {
		name, label string
		board       bool
	}{
		{"kanban.db", kanban.BoardLabel(kanban.DefaultSlug), true}, {"state.db", "state.db", false},
	} {
		for _, c := range []struct{ beside, state, says string }{
			{"", "ok", "not made yet"},
			{"-wal", "fail", "its -wal is still there"},
			{".corrupt.0123456789abcdef.bak", "fail", "once was"},
			{"backup", "fail", "backup"},
		} {
			for _, empty := range []bool{false, true} {
				home := t.TempDir()
				cfg := config.Config{Home: home}
				path := filepath.Join(home, file.name)
				if c.beside == "backup" {
					backUp(t, cfg, file.label, path)
				} else if c.beside != "" {
					need(t, os.WriteFile(path+c.beside, []byte("rows"), 0o600))
				}
				if empty {
					need(t, os.WriteFile(path, nil, 0o600))
				}
				before := contents(t, home)
				got := examined(t, cfg, doctor.Database{Label: file.label, Path: path, Board: file.board})[0]
				state := doctor.State(c.state)
				if !empty && c.beside == ".corrupt.0123456789abcdef.bak" {
					state = got.State // a copy alone says nothing of a file that somebody moved away
				}
				if got.State != state || state == "fail" && (!strings.Contains(got.Says, c.says) || got.Remedy == "" || !strings.Contains(got.Says, path)) {
					t.Errorf("%s, empty %v, beside it %q: %+v", file.name, empty, c.beside, got)
				}
				if after := contents(t, home); after != before {
					t.Errorf("%s, empty %v, beside it %q: doctor changed\n%s\nto\n%s", file.name, empty, c.beside, before, after)
				}
			}
		}
	}
}

// examined gives the checks of one database.
func examined(t *testing.T, cfg config.Config, db doctor.Database) []doctor.Check {
	t.Helper()
	all := doctor.Examine(t.Context(), &doctor.House{
		Home: cfg.Home, Broken: errors.New("only the database is looked at"), Backups: backupDir(cfg), Now: time.Now(), Databases: []doctor.Database{db},
		Daemon: func(context.Context) (doctor.Running, error) { return doctor.Running{}, errors.New("none") },
	})
	return slices.DeleteFunc(all, func(c doctor.Check) bool { return c.Subject == "" })
}

// backUp makes a database, backs it up and loses it.
func backUp(t *testing.T, cfg config.Config, label, path string) {
	t.Helper()
	var file *sqlite.File
	var end func() error
	if label == "state.db" {
		s, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: path})
		need(t, err)
		file, end = s.File(), s.Close
	} else {
		b, err := kanban.Open(t.Context(), kanban.Options{Path: path, Create: true})
		need(t, err)
		file, end = b.File(), b.Close
	}
	_, err := file.Backup(t.Context(), sqlite.BackupOptions{Dir: backupDir(cfg)})
	need(t, err)
	need(t, end())
	for _, side := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + side); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}
