package kanban

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

func TestAnArchivedBoardComesBackWhole(t *testing.T) {
	y := newYard(t)
	card := y.board("plans")
	gone, err := y.Archive(t.Context(), "plans", y.hands())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(filepath.Dir(gone.NewPath), "somebody's notes"), 0o700); err != nil {
		t.Fatal(err)
	}
	list, err := y.Archived()
	if err != nil || len(list) != 1 || list[0].Slug != "plans" || list[0].Path != gone.NewPath || time.Since(list[0].At) > time.Minute {
		t.Fatalf("archived: %+v, %v", list, err)
	}
	y.board("plans")
	if _, err := y.Restore("plans"); !errors.Is(err, ErrConflict) || !exists(gone.NewPath) {
		t.Errorf("beside a board of its name: %v", err)
	}
	if _, err := y.Delete(t.Context(), "plans", y.hands()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"none", "../plans", "somebody's notes", ""} {
		if _, err := y.Restore(name); !problem.Is(err, problem.NotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if info, err := y.Restore(list[0].Name); err != nil || info.Slug != "plans" || exists(gone.NewPath) {
		t.Fatal(info, err)
	}
	b, release, err := y.open(t.Context(), "plans")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	files, err := b.Attachments(t.Context(), card)
	if err != nil || len(files) != 1 {
		t.Errorf("files: %v, %v", files, err)
	}
}

func TestAnExportedBoardKeepsTheTimesOfItsCards(t *testing.T) {
	y := newYard(t)
	y.board("plans")
	b, release, err := y.open(t.Context(), "plans")
	if err != nil {
		t.Fatal(err)
	}
	pattern := b.make(t, NewTask{Title: "nightly", Assignee: "dev"}).ID
	if _, err := b.Schedule(t.Context(), pattern, Schedule{Rule: "0 3 * * *"}); err != nil {
		t.Fatal(err)
	}
	want, err := b.Timers(t.Context())
	release()
	if err != nil || len(want) != 1 {
		t.Fatal(want, err)
	}
	in, err := y.Import(t.Context(), bytes.NewReader(y.export("plans", wholeBoard())), ImportOptions{Slug: "copy"})
	if err != nil {
		t.Fatal(err)
	}
	copied, release, err := y.open(t.Context(), in.Board.Slug)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	got, err := copied.Timers(t.Context())
	if err != nil || len(got) != 1 || got[0] != want[0] {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
