package kanban

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gatewayd/internal/sqlite/steps"
)

// playMove does one thing to a root and says each change that it makes to the disk; ahead of the n-th it goes no further.
func playMove() int {
	n, _ := strconv.ParseInt(os.Getenv(stepVar), 10, 64)
	root, err := OpenRoot(os.Getenv(fileVar))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	stop, err := steps.BeforeCall(n, func(call string) { fmt.Println("at", call) })
	if err != nil {
		fmt.Println("cannot", err)
		return 0
	}
	hands := Hands{Open: func(ctx context.Context, slug Slug) (*Board, func(), error) {
		b, err := Open(ctx, Options{Path: root.DBPath(slug), Slug: slug})
		if err != nil {
			return nil, nil, err
		}
		return b, func() { _ = b.Close() }, nil
	}}
	stop.Arm()
	ctx := context.Background()
	switch os.Getenv(cardVar) {
	case "archive":
		_, err = root.Archive(ctx, "plans", hands)
	case "delete":
		_, err = root.Delete(ctx, "plans", hands)
	case "import":
		var f *os.File
		if f, err = os.Open(os.Getenv(fileVar) + "/plans.tar.gz"); err == nil {
			_, err = root.Import(ctx, f, ImportOptions{Slug: "new"})
		}
	}
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("done")
	if n > 0 {
		select {}
	}
	return 0
}

// move starts a process that does it and kills it ahead of its n-th change; with n 0 it gives every change.
func move(t *testing.T, root, what string, n int) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"=move", fileVar+"="+root, cardVar+"="+what, stepVar+"="+strconv.Itoa(n))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text := lines.Text()
		if strings.HasPrefix(text, "cannot ") {
			t.Skip("NOT TESTED: this kernel does not tell of system calls: " + text)
		}
		if strings.HasPrefix(text, "error ") {
			t.Fatal(text)
		}
		said = append(said, text)
		if n > 0 || text == "done" {
			break
		}
	}
	return said
}

// A process that is killed ahead of any change it makes to the disk leaves a board as it was or as it should be.
func TestABoardIsOldOrNewWhereverItsMoverIsKilled(t *testing.T) {
	if raceEnabled {
		t.Skip("many processes, each with one goroutine that matters: NOT killed under the race detector")
	}
	for _, what := range []string{"archive", "delete", "import"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			all := move(t, moveRoot(t).Dir(), what, 0)
			for _, n := range moments(all) {
				y := moveRoot(t)
				said := move(t, y.Dir(), what, n)
				y.oldOrNew(what, strings.Join(said, ""))
			}
		})
	}
}

func moveRoot(t *testing.T) yard {
	t.Helper()
	y := newYard(t)
	y.board("plans")
	text := y.export("plans", wholeBoard())
	if err := os.WriteFile(filepath.Join(y.Dir(), "plans.tar.gz"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return y
}

// moments are the changes to cut at: every one of names, and some of those inside of files.
func moments(all []string) []int {
	var list []int
	for i, said := range all {
		verb := strings.TrimPrefix(said, "at ")
		if strings.HasPrefix(verb, "rename") || strings.HasPrefix(verb, "unlink") || i%23 == 0 {
			list = append(list, i+1)
		}
	}
	const most = 12
	for len(list) > most { // an import makes and removes many names of its own
		kept := list[:0]
		for i, n := range list {
			if i%2 == 0 || i >= len(list)-3 {
				kept = append(kept, n)
			}
		}
		list = kept
	}
	return list
}

// oldOrNew looks at the root as the next process would, and does the thing again.
func (y yard) oldOrNew(what, said string) {
	t := y.t
	t.Helper()
	archived, _ := filepath.Glob(filepath.Join(y.Dir(), "kanban", "boards", archiveDir, "plans-*", "kanban.db"))
	old := map[string]string{"archive": "default plans", "delete": "default plans", "import": "default plans"}[what]
	fresh := map[string]string{"archive": "default", "delete": "default", "import": "default new plans"}[what]
	got := y.slugs()
	if got != old && got != fresh {
		t.Errorf("killed %q: boards %s", said, got)
	}
	for slug := range strings.FieldsSeq(strings.TrimPrefix(got, "default")) {
		b, release, err := y.open(t.Context(), Slug(slug))
		if err != nil {
			t.Errorf("killed %q: board %s: %v", said, slug, err)
			continue
		}
		if n := b.scalar(t, `SELECT count(*) FROM tasks WHERE title = 'one'`); n != "1" || b.scalar(t, `PRAGMA integrity_check`) != "ok" {
			t.Errorf("killed %q: board %s has %s cards, or is not sound", said, slug, n)
		}
		release()
	}
	if what == "archive" && (got == old) == (len(archived) == 1) {
		t.Errorf("killed %q: boards %s, archived %v", said, got, archived)
	}
	if got == fresh {
		return
	}
	switch what {
	case "archive":
		_, err := y.Archive(t.Context(), "plans", y.hands())
		y.again(said, err, fresh)
	case "delete":
		_, err := y.Delete(t.Context(), "plans", y.hands())
		y.again(said, err, fresh)
	case "import":
		text, err := os.ReadFile(filepath.Join(y.Dir(), "plans.tar.gz"))
		if err == nil {
			_, err = y.Import(t.Context(), bytes.NewReader(text), ImportOptions{Slug: "new"})
		}
		y.again(said, err, fresh)
		if left, _ := filepath.Glob(filepath.Join(y.Dir(), "kanban", "boards", stageMark+"*")); len(left) > 0 {
			t.Errorf("killed %q: %v stays", said, left)
		}
	}
}

func (y yard) again(said string, err error, want string) {
	y.t.Helper()
	if err != nil || y.slugs() != want {
		y.t.Errorf("killed %q and done again: %v, boards %s", said, err, y.slugs())
	}
}

// hold starts a process that has a file open, and gives what ends it.
func hold(t *testing.T, path string) (end func()) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("sleep", "600")
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ended bool
	end = func() {
		if !ended {
			ended = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	t.Cleanup(end)
	return end
}
