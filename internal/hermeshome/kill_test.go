package hermeshome

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/kanban"
	"gatewayd/sessiondb"
)

const (
	childDir  = "GATEWAYD_TEST_HERMES_DIR"
	childHome = "GATEWAYD_TEST_HERMES_HOME"
)

// TestImportOfAChild is no test but the process that the next one kills.
func TestImportOfAChild(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		bring(t, dir, os.Getenv(childHome), false)
	}
}

// moments are what a killed import leaves first, in the order in which it makes them.
var moments = []string{"imports/*.json", ".env", "config.yaml", "borrowed-*", "kanban/boards/.making-*", "kanban.db", "kanban/boards/side/kanban.db", "state.db", "state.db-wal"}

func TestKilledAtAnyMomentAndRunAgainItEndsInTheSameState(t *testing.T) {
	if os.Getenv("GATEWAYD_FIXTURES") == "" {
		t.Skip("GATEWAYD_FIXTURES is not set: an import of real files that is killed is NOT tested")
	}
	dir, whole := hermesDir(t), t.TempDir()
	bring(t, dir, whole, false)
	want := brought(t, whole)
	killed := 0
	for _, moment := range moments {
		home := t.TempDir()
		if killAt(t, dir, home, moment) {
			killed++
		}
		bring(t, dir, home, false)
		if got := brought(t, home); got != want {
			t.Errorf("killed at %s and run again it is\n%s\nand not\n%s", moment, got, want)
		}
		if left, _ := filepath.Glob(filepath.Join(home, "borrowed-*")); len(left) > 0 {
			t.Errorf("killed at %s, copies are left: %v", moment, left)
		}
	}
	t.Logf("it was killed at %d of %d moments", killed, len(moments))
	if killed < 3 {
		t.Error("hardly any import was killed before it ended")
	}
}

// killAt starts an import and kills it when what is named is there. It reports whether it was still running.
func killAt(t *testing.T, dir, home, moment string) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestImportOfAChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childHome+"="+home)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(200 * time.Microsecond)
	defer look.Stop()
	deadline := time.After(time.Minute)
	for {
		if found, _ := filepath.Glob(filepath.Join(home, moment)); len(found) > 0 {
			break
		}
		select {
		case <-look.C:
		case err := <-ended:
			t.Logf("it ended before %s was seen: %v", moment, err)
			return false
		case <-deadline:
			_ = cmd.Process.Kill()
			t.Fatalf("%s was never there", moment)
		}
	}
	_ = cmd.Process.Kill()
	return <-ended != nil
}

// brought is what a home holds of Hermes, without the times at which it came.
func brought(t *testing.T, home string) string {
	t.Helper()
	var out strings.Builder
	for _, name := range []string{"config.yaml", ".env"} {
		text, err := os.ReadFile(filepath.Join(home, name))
		fmt.Fprintln(&out, name, string(text), err)
	}
	for slug, path := range map[kanban.Slug]string{"default": "kanban.db", "side": "kanban/boards/side/kanban.db"} {
		board, err := kanban.Open(t.Context(), kanban.Options{Path: filepath.Join(home, path), Slug: slug})
		if err != nil {
			t.Fatal(err)
		}
		list, err := board.List(t.Context(), kanban.Filter{Archived: true})
		if err != nil || board.Close() != nil {
			t.Fatal(err)
		}
		var cards []string
		for _, c := range list {
			cards = append(cards, fmt.Sprint(slug, c.ID, c.Title, c.Status))
		}
		slices.Sort(cards)
		fmt.Fprintln(&out, strings.Join(cards, "\n"))
	}
	return sortedLines(out.String()) + conversations(t, home)
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func conversations(t *testing.T, home string) string {
	t.Helper()
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: filepath.Join(home, "state.db"), Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	list, err := store.Sessions(t.Context(), sessiondb.ListFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, s := range list {
		rows, err := store.Transcript(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, s.ID, len(rows))
	}
	return sortedLines(out.String())
}
