package sqlite

import (
	"strings"
	"testing"
)

func TestWALIsEnteredOnlyWithAReleaseThatRestartsTheLogSafely(t *testing.T) {
	for text, resets := range map[string]bool{
		"3.6.23": false, "3.7.0": true, "3.40.1": true, "3.44.5": true, "3.44.6": false, "3.44.9": false,
		"3.45.0": true, "3.50.4": true, "3.50.6": true, "3.50.7": false, "3.51.0": true, "3.51.2": true,
		"3.51.2.1": true, "3.51.3": false, "3.54.1": false, "4.0.0": false, "": true, "3.50": true, "new": true,
	} {
		if got := walResets(text); got != resets {
			t.Errorf("%q: %t, want %t", text, got, resets)
		}
	}
}

func TestNoVersionIsPinnedInAnOrdinaryBuild(t *testing.T) {
	if versionPin != "" {
		t.Fatalf("pinned to %s", versionPin)
	}
	if text, err := library(); walResets(text) || err != nil {
		t.Errorf("the linked SQLite is %q: %v", text, err)
	}
}

func pinVersion(t *testing.T, text string) {
	t.Helper()
	versionPin = text
	t.Cleanup(func() { versionPin = "" })
}

func TestAPinnedReleaseOpensANewFileInRollbackModeAndKeepsAnOldOneInWAL(t *testing.T) {
	old := testOptions(t)
	f := mustOpen(t, old)
	mustWrite(t, f, insert("before"))
	f.Close()

	pinVersion(t, "3.50.4")
	var log lockedBuilder
	old.Log = textLog(&log)
	f = mustOpen(t, old)
	if f.Journal().Mode != "wal" || strings.Count(log.String(), "can lose a commit") != 1 {
		t.Errorf("old file: %+v, log %s", f.Journal(), log.String())
	}
	if n := count(t, f); n != 1 {
		t.Errorf("%d rows of the old file", n)
	}

	g := mustOpen(t, testOptions(t))
	mustWrite(t, g, insert("a"))
	if g.Journal().Mode != "delete" || !strings.Contains(g.Journal().Reason, "3.50.4") {
		t.Errorf("new file: %+v", g.Journal())
	}
	if node, _ := statInode(g.walPath); node != (inode{}) {
		t.Error("a -wal was made beside the new file")
	}
}
