package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// A daemon that does not know its own backups makes one at each start, and these push out the older ones.
func TestADaemonWhoseHomeIsALinkOrMovedKnowsItsBackups(t *testing.T) {
	dir := t.TempDir()
	home, link, moved := filepath.Join(dir, "home"), filepath.Join(dir, "link"), filepath.Join(dir, "moved")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Symlink(home, link)); err != nil {
		t.Fatal(err)
	}
	cfg := config.Config{Home: link}
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: storePath(cfg)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	made, err := store.Backup(t.Context(), backupDir(cfg), sqlite.DefaultKeep)
	if err != nil {
		t.Fatal(err)
	}
	knows := func(home, path string) {
		t.Helper()
		d := &daemon{config: config.Loaded{Config: config.Config{Home: home}}, store: keptStore{path: path}}
		if got := d.lastBackup(); !got.Equal(made.Manifest.MadeAt) {
			t.Errorf("the last backup was at %s, want %s", got, made.Manifest.MadeAt)
		}
	}
	knows(link, store.File().Path())
	if err := errors.Join(store.Close(), os.Rename(home, moved)); err != nil {
		t.Fatal(err)
	}
	knows(moved, filepath.Join(moved, "state.db"))
}

func TestARoundIsDueAtItsTimeOfDayAndAMissedOneSoon(t *testing.T) {
	at := func(text string) time.Time {
		when, err := time.ParseInLocation(time.DateTime, text, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, c := range []struct {
		now, last, clock, want string
		every                  time.Duration
	}{
		{"2026-03-02 12:00:00", "2026-03-02 11:00:00", "", "2026-03-03 11:00:00", 24 * time.Hour},
		{"2026-03-02 12:00:00", "2026-02-01 11:00:00", "", "2026-03-02 12:05:00", 24 * time.Hour},
		{"2026-03-02 12:00:00", "2026-03-02 03:30:10", "03:30", "2026-03-03 03:30:00", 24 * time.Hour},
		{"2026-03-02 02:00:00", "2026-03-01 03:30:10", "03:30", "2026-03-02 03:30:00", 0},
		{"2026-03-02 12:00:00", "2026-02-28 03:30:10", "03:30", "2026-03-02 12:05:00", 0}, // the machine was off
	} {
		if got := nextRound(at(c.now), at(c.last), c.every, c.clock); !got.Equal(at(c.want)) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestTheDoctorKnowsOfTheLastGoodRoundAndOfOneThatFailed(t *testing.T) {
	cfg := config.Default()
	cfg.Home = t.TempDir()
	for _, failed := range []error{nil, errors.New("no space left"), nil} {
		if err := noteBackup(cfg.Home, failed); err != nil {
			t.Fatal(err)
		}
		got := failedRound(cfg)
		if (got == "") != (failed == nil) || failed != nil && (!strings.Contains(got, "no space left") || !strings.Contains(got, "the last good one was at")) {
			t.Errorf("%v: %q", failed, got)
		}
	}
}
