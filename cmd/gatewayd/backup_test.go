package main

import (
	"os"
	"path/filepath"
	"testing"

	"gatewayd/config"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// A daemon that does not know its own backups makes one at each start, and these push out the older ones.
func TestADaemonWhoseHomeIsALinkKnowsItsBackups(t *testing.T) {
	real := t.TempDir()
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Symlink(real, home); err != nil {
		t.Fatal(err)
	}
	cfg := config.Config{Home: home}
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: storePath(cfg)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	made, err := store.Backup(t.Context(), backupDir(cfg), sqlite.DefaultKeep)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{config: config.Loaded{Config: cfg}, store: keptStore{path: store.File().Path()}}
	if got := d.lastBackup(); !got.Equal(made.Manifest.MadeAt) {
		t.Errorf("the last backup was at %s, want %s", got, made.Manifest.MadeAt)
	}
}
