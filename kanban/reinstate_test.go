package kanban

import (
	"os"
	"path/filepath"
	"testing"

	"gatewayd/internal/problem"
)

// Its first write would make the rows in the captured log a person's work.
func TestABoardWhoseLostRowsCannotComeBackYetIsNotOpened(t *testing.T) {
	opts := Options{Path: filepath.Join(t.TempDir(), "kanban.db"), Create: true, Heal: true}
	b, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	card := b.make(t, NewTask{Title: "in the lost log"})
	if err := os.Remove(opts.Path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(t.Context(), NewTask{Title: "refused"}); err == nil {
		t.Fatal("the loss was not met: this test proves nothing")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}

	holder, err := os.Open(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := Open(t.Context(), opts); !problem.Is(err, problem.Busy) {
		t.Fatalf("while somebody has the file: %v", err)
	}
	holder.Close()
	again, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := again.get(t, card.ID); got.Title != "in the lost log" {
		t.Errorf("the card is %+v", got)
	}
}
