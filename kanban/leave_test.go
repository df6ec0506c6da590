package kanban

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

// yard is a root whose boards are opened for each call, as a process without a registry does.
type yard struct {
	*Root
	t *testing.T
}

func newYard(t *testing.T) yard {
	t.Helper()
	root, err := OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return yard{root, t}
}

func (y yard) open(ctx context.Context, slug Slug) (*Board, func(), error) {
	b, err := Open(ctx, Options{Path: y.DBPath(slug), Slug: slug})
	if err != nil {
		return nil, nil, err
	}
	return b, func() { _ = b.Close() }, nil
}

func (y yard) hands() Hands { return Hands{Open: y.open} }

// board makes a board with one card that has a file, and closes it.
func (y yard) board(slug Slug) (card string) {
	y.t.Helper()
	if _, err := y.Create(slug, Meta{Name: "Plans", DefaultWorkdir: "/srv/src"}); err != nil {
		y.t.Fatal(err)
	}
	b, err := Open(y.t.Context(), Options{Path: y.DBPath(slug), Slug: slug, Create: true})
	if err != nil {
		y.t.Fatal(err)
	}
	defer b.Close()
	card = b.make(y.t, NewTask{Title: "one", Assignee: "dev"}).ID
	b.attachText(y.t, card, "note.txt", "kept")
	return card
}

func (y yard) slugs() string {
	y.t.Helper()
	boards, err := y.AllBoards()
	if err != nil {
		y.t.Fatal(err)
	}
	var slugs []string
	for _, b := range boards {
		slugs = append(slugs, string(b.Slug))
	}
	return strings.Join(slugs, " ")
}

func TestABoardIsArchivedWholeAndDeletedForGood(t *testing.T) {
	y := newYard(t)
	card := y.board("plans")
	if err := y.SetCurrent("plans"); err != nil {
		t.Fatal(err)
	}
	first, err := y.Archive(t.Context(), "plans", y.hands())
	if err != nil || first.Action != "archived" {
		t.Fatal(first, err)
	}
	if y.slugs() != "default" || y.Current() != DefaultSlug || exists(filepath.Join(y.Dir(), currentFile)) {
		t.Errorf("boards %s, current %s", y.slugs(), y.Current())
	}
	for _, name := range []string{"kanban.db", "board.json", "attachments/" + card + "/note.txt"} {
		if !exists(filepath.Join(first.NewPath, name)) {
			t.Errorf("the archive has no %s", name)
		}
	}
	y.board("plans")
	second, err := y.Archive(t.Context(), "plans", y.hands())
	if err != nil || second.NewPath == first.NewPath {
		t.Fatal(second, err)
	}
	y.board("plans")
	gone, err := y.Delete(t.Context(), "plans", y.hands())
	if err != nil || gone.Action != "deleted" || y.slugs() != "default" {
		t.Fatal(gone, err, y.slugs())
	}
	left, _ := os.ReadDir(filepath.Join(y.Dir(), "kanban", "boards", archiveDir))
	if len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}

func TestABoardThatIsInUseStays(t *testing.T) {
	y := newYard(t)
	card := y.board("plans")
	for _, leave := range []func(context.Context, Slug, Hands) (Removed, error){y.Archive, y.Delete} {
		if _, err := leave(t.Context(), DefaultSlug, y.hands()); !problem.Is(err, problem.Denied) {
			t.Errorf("default: %v", err)
		}
		if _, err := leave(t.Context(), "none", y.hands()); !problem.Is(err, problem.NotFound) {
			t.Errorf("missing: %v", err)
		}
	}
	b, release, err := y.open(t.Context(), "plans")
	if err != nil {
		t.Fatal(err)
	}
	run := b.mustClaim(t, card)
	if _, err := y.Delete(t.Context(), "plans", y.hands()); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), card) {
		t.Errorf("running: %v", err)
	}
	if err := b.Complete(t.Context(), card, Completion{Run: &run, Summary: "done"}); err != nil {
		t.Fatal(err)
	}
	release()
	closed := false
	hands := y.hands()
	hands.Close = func(_ context.Context, dir string) error {
		closed = true
		if !exists(filepath.Join(dir, "kanban.db")) {
			return nil
		}
		return &problem.Error{Kind: problem.Unavailable, Thing: dir, What: "is still being closed"}
	}
	if _, err := y.Delete(t.Context(), "plans", hands); err == nil || !closed {
		t.Errorf("handles that do not close: %v", err)
	}
	lock, err := TryDispatchLock(y.DBPath("plans"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := y.Archive(ctx, "plans", y.hands()); !problem.Is(err, problem.Busy) {
		t.Errorf("in a tick: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if y.slugs() != "default plans" || !exists(y.DBPath("plans")) {
		t.Errorf("boards: %s", y.slugs())
	}
}

// A process that holds the file would go on writing to what nobody sees.
func TestABoardThatAnotherProcessHoldsStays(t *testing.T) {
	y := newYard(t)
	y.board("plans")
	other := hold(t, y.DBPath("plans"))
	for _, leave := range []func(context.Context, Slug, Hands) (Removed, error){y.Archive, y.Delete} {
		if _, err := leave(t.Context(), "plans", y.hands()); !problem.Is(err, problem.Busy) || !strings.Contains(err.Error(), "process") {
			t.Errorf("held: %v", err)
		}
	}
	other()
	if _, err := y.Delete(t.Context(), "plans", y.hands()); err != nil {
		t.Errorf("let go: %v", err)
	}
}

func TestADeletedBoardTakesNothingElseAlong(t *testing.T) {
	y := newYard(t)
	y.board("plans")
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.MkdirAll(filepath.Join(precious, "src"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(y.Dir(), boardDir("plans"))
	for _, err := range []error{os.Symlink(precious, filepath.Join(dir, "workspaces")), os.Symlink("/", filepath.Join(dir, "attachments", "root"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := y.Delete(t.Context(), "plans", y.hands()); err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(precious, "src")) || exists(dir) {
		t.Error("a link was followed, or the board is still there")
	}
}
