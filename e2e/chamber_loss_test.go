package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"gatewayd/internal/chamber"
)

// Files go away under open handles: each writer halts with the error that names it, keeps what only its descriptors
// still hold, goes on with a new handle, and after a salvage every acknowledged row is there once.
func TestChamberLosses(t *testing.T) { eachAlone(t, chamber.Losses()) }

// Backups are made beside writers, and hold everything that was acknowledged before they began. A restore is refused beside
// writers, and brings it all back.
func TestChamberBackups(t *testing.T) { eachAlone(t, chamber.Copies()) }

// A repair is refused beside a live writer, and mends offline without giving up a row.
func TestChamberRepair(t *testing.T) { eachAlone(t, chamber.Repairs()) }

// eachAlone gives each episode a store of its own, in each mode.
func eachAlone(t *testing.T, episodes []chamber.Episode) {
	t.Parallel()
	for _, mode := range []string{chamber.WAL, chamber.Delete} {
		for _, e := range episodes {
			if !e.In(mode) {
				continue
			}
			t.Run(mode+"/"+e.Name, func(t *testing.T) {
				t.Parallel()
				runEpisode(t, newChamber(t, mode), e)
			})
		}
	}
}

// A disk that is full refuses with an error that says so; when there is space again the same handle goes on, and
// nothing that was acknowledged is lost.
func TestChamberFullDisk(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{chamber.WAL, chamber.Delete} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newChamberIn(t, mode, smallDisk(t))
			runEpisode(t, c, chamber.Full())
		})
	}
}

// smallDisk mounts a file system of 16 MB, with the ledgers elsewhere.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := mountMemory(dir, false, "size=16m"); err != nil {
		t.Skipf("a small file system cannot be mounted here (%v): a full disk is NOT tested with real processes", err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "ledgers")); err != nil {
		t.Fatal(err)
	}
	return dir
}
