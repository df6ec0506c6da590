package main

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"gatewayd/config"
	"gatewayd/internal/doctor"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

// A card that is only in a capture is one that somebody was told is there.
func TestDoctorTellsOfWhatABoardLost(t *testing.T) {
	cfg := config.Config{Home: t.TempDir()}
	cfg.Kanban.Root = cfg.Home
	root, err := kanban.OpenRoot(cfg.Home)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	path := root.DBPath(kanban.DefaultSlug)
	b, err := kanban.Open(t.Context(), kanban.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	capture := wantCheck(t, examined(t, cfg, doctor.Database{Label: "board default", Path: path, Board: true}), "holds what the board had")
	all, err := sqlite.Captures(path)
	if err != nil || len(all) != 1 || !strings.Contains(capture, all[0].Dir) {
		t.Fatalf("%q does not name %v, %v", capture, all, err)
	}
	if err := os.Rename(all[0].Dir, all[0].Dir+".partial"); err != nil { // as a kill before its last step leaves it
		t.Fatal(err)
	}
	wantCheck(t, examined(t, cfg, doctor.Database{Label: "board default", Path: path, Board: true}), "was killed before it was whole")
	if again, err := sqlite.Captures(path); err != nil || len(again) != 0 {
		t.Errorf("a capture without its name is listed: %v, %v", again, err)
	}
}

func TestDoctorTellsOfACaptureThatWasCutOff(t *testing.T) {
	cfg := config.Config{Home: t.TempDir()}
	s, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: storePath(cfg), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(storePath(cfg)+".retired-wal-20260101-000000-1.partial", 0o700); err != nil {
		t.Fatal(err)
	}
	wantCheck(t, examined(t, cfg, doctor.Database{Label: "state.db", Path: storePath(cfg)}), "was killed before it was whole")
}

// wantCheck gives the detail of the check that says so.
func wantCheck(t *testing.T, checks []doctor.Check, part string) string {
	t.Helper()
	for _, c := range checks {
		if strings.Contains(c.Says, part) {
			return c.Says
		}
	}
	t.Fatalf("no check says %q: %+v", part, checks)
	return ""
}
