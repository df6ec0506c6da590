package kanban

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

// A read verb on a board that is not there names a verb, and that verb makes the board, whatever is half there.
func TestTheHintOfAReadVerbWorks(t *testing.T) {
	for _, slug := range []Slug{DefaultSlug, "ops"} {
		for _, half := range []string{"nothing", "empty file", "board.json", "both"} {
			r := newRoot(t)
			if half == "board.json" || half == "both" {
				r.put(t, filepath.Join(boardDir(slug), "board.json"), `{"name": "Kept", "created_at": 7, "zz": 1}`)
			}
			if half == "empty file" || half == "both" {
				r.put(t, dbFile(slug), "")
			}
			opts := Options{Path: r.DBPath(slug), Slug: slug}
			if _, err := Open(t.Context(), opts); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "`gatewayd kanban boards create "+string(slug)+"`") {
				t.Errorf("%s, %s: open: %v", slug, half, err)
			}
			info, err := r.Create(slug, Meta{Icon: "i"})
			if err != nil {
				t.Errorf("%s, %s: create: %v", slug, half, err)
				continue
			}
			if kept := info.Name == "Kept" && info.CreatedAt == 7; info.Icon != "i" || kept != (half == "board.json" || half == "both") {
				t.Errorf("%s, %s: %+v", slug, half, info)
			}
			opts.Create = true
			openBoard(t, opts).make(t, NewTask{})
		}
	}
}

// Where a board got lost nothing is made in its place, not even its board.json, and the reader hears what to do.
func TestALostBoardIsNotCreatedAnew(t *testing.T) {
	for name, lost := range map[string]struct{ says, remedy string }{
		"kanban.db.corrupt.0123456789abcdef.bak": {"is empty, but kanban.db.corrupt", "put a backup back, or move the empty file away"},
		"kanban.db-wal":                          {"is empty, but its -wal", "put a backup back, or move both files away"},
	} {
		r := newRoot(t)
		r.put(t, "kanban.db", "")
		r.put(t, name, "rows")
		before := everything(t, r.dir)
		_, err := r.Create(DefaultSlug, Meta{})
		_, opened := Open(t.Context(), Options{Path: r.DBPath(DefaultSlug)})
		for _, err := range []error{err, opened} {
			if !errors.Is(err, ErrCorruptBoard) || !strings.Contains(err.Error(), lost.says) || !strings.Contains(err.Error(), lost.remedy) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if after := everything(t, r.dir); after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
	}
}

func TestALinkToNothingIsNoBoard(t *testing.T) {
	r := newRoot(t)
	if err := os.Symlink("elsewhere.db", r.DBPath(DefaultSlug)); err != nil {
		t.Fatal(err)
	}
	_, created := r.Create(DefaultSlug, Meta{})
	_, opened := Open(t.Context(), Options{Path: r.DBPath(DefaultSlug)})
	for _, err := range []error{created, opened} {
		if !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "is a symbolic link to elsewhere.db, which does not exist") || strings.Contains(err.Error(), "boards create") {
			t.Errorf("a link to nothing: %v", err)
		}
	}
}

// No remedy names a verb that does not exist.
func TestRemediesOfADamagedBoardCanBeFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kanban.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, noDatabase := Open(t.Context(), Options{Path: path})
	for _, err := range []error{noDatabase, corruptBoard("b", path, errTorn)} {
		if err == nil || !strings.Contains(err.Error(), "`gatewayd restore BACKUP`") {
			t.Errorf("%v", err)
		}
	}
	if strings.Contains(noDatabase.Error(), "gatewayd repair") {
		t.Errorf("pages that are none cannot be repaired: %v", noDatabase)
	}
}

// A FIFO is waited for by whoever opens it. Nothing below a root, nor the root, may hang a verb that way.
func TestAFIFOHangsNobody(t *testing.T) {
	fifo := func(elem ...string) string {
		path := filepath.Join(elem...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	root, r := fifo(t.TempDir(), "root"), newRoot(t)
	fifo(r.dir, "kanban", "current")
	fifo(r.dir, "kanban", "boards")
	board := fifo(r.dir, "kanban.db")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := OpenRoot(root)
		if !problem.Is(err, problem.Config) || !strings.Contains(err.Error(), "is not a directory") || !strings.Contains(err.Error(), "kanban.root") {
			t.Errorf("a FIFO as root: %v", err)
		}
		if got := r.Current(); got != DefaultSlug {
			t.Errorf("current board: %s", got)
		}
		if _, err := r.Boards(); err == nil {
			t.Error("a FIFO was listed")
		}
		if _, err := BackupCorrupt(board); err == nil {
			t.Error("a FIFO was copied")
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("somebody waits for a FIFO")
	}
}

func TestTroubleWithADirectoryHasARemedy(t *testing.T) {
	_, err := OpenRoot(filepath.Join(t.TempDir(), "nowhere"))
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing root says its cause twice: %v", err)
	}
	for errno, want := range map[syscall.Errno]problem.Kind{
		syscall.EROFS: problem.Config, syscall.ENOSPC: problem.Full, syscall.EDQUOT: problem.Full, syscall.EMFILE: problem.Full, syscall.EACCES: problem.Denied,
		syscall.ENOTDIR: problem.Unavailable, syscall.EIO: problem.Unavailable,
	} {
		err := diskProblem("it", "cannot be made", unchanged, fmt.Errorf("mkdirat x: %w", errno))
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind != want || p.Remedy == "" || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	r := newRoot(t)
	r.put(t, "kanban", "a file where a directory belongs")
	_, created := r.Create("ops", Meta{})
	_, locked := r.TrySingletonLock()
	for _, err := range []error{created, locked, r.SetCurrent(DefaultSlug)} {
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Remedy == "" || p.Fate == "" {
			t.Errorf("without a fate or a remedy: %v", err)
		}
	}
}

func TestWhatABoardIsMadeOfIsPrivate(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	r := newRoot(t)
	if err := os.Chmod(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := r.Create("ops", Meta{})
	if err != nil {
		t.Fatal(err)
	}
	openBoard(t, Options{Path: info.Path, Slug: "ops", Create: true})
	lock, err := r.TrySingletonLock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := r.SetCurrent("ops"); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	// Who opened a board.json to others on purpose finds it open.
	doc := filepath.Join(r.dir, boardDir("ops"), "board.json")
	if err := os.Chmod(doc, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Update("ops", MetaChange{Name: new("New")}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(doc); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("board.json: %v, %v", st.Mode(), err)
	}
}

func TestVerbsRefuseWhatMeansNothing(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	_, listed := b.List(t.Context(), Filter{Status: "foo"})
	_, created := b.Create(t.Context(), NewTask{Title: "x", WorkspacePath: "/tmp"})
	blocked := b.Block(t.Context(), card.ID, Block{Reason: " \n"})
	completed := b.Complete(t.Context(), card.ID, Completion{})
	for want, err := range map[string]error{"triage, todo": listed, "dir or worktree": created, "has no reason": blocked, "--summary or --result": completed} {
		if !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("wanted %q: %v", want, err)
		}
	}
	b.wantStatus(t, card.ID, StatusReady)
}
