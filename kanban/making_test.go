package kanban

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// A daemon sees a new board's file before its tables are there. It waits for who makes it; a file that nobody makes a board
// of is still refused.
func TestABoardThatIsBeingMadeIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kanban.db")
	bare, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Label: "bare", Create: true, Migrate: func(*sqlite.Tx) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := bare.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err := waitLock(t.Context(), path+initLockSuffix, initLockPoll)
	if err != nil {
		t.Fatal(err)
	}
	waits, opened := make(told, 1), make(chan error, 1)
	go func() {
		b, err := Open(t.Context(), Options{Path: path, Log: slog.New(slog.NewTextHandler(waits, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		if err == nil {
			err = b.Close()
		}
		opened <- err
	}()
	select {
	case <-waits:
	case err := <-opened:
		t.Fatalf("was not waited for: %v", err)
	}
	made, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Label: "board default", Stale: func(*sqlite.Conn) (bool, error) { return true, nil }, Migrate: migrate})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	_ = lock.Close()
	if err := <-opened; err != nil {
		t.Errorf("a board that was being made: %v", err)
	}
}

// told is a log that says that something was written into it.
type told chan struct{}

func (c told) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "waiting for who makes it") {
		c <- struct{}{}
	}
	return len(p), nil
}

func TestAFileWithoutTablesIsRefusedOnceNobodyMakesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kanban.db")
	bare, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Label: "bare", Create: true, Migrate: func(*sqlite.Tx) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := bare.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Path: path}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "has no tables") {
		t.Errorf("%v", err)
	}
}

// NUL ends a text for programs in C: no argument of a worker may hold it.
func TestANULIsNotStored(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Title: "a\x00b", Body: "c\x00d"})
	if card.Title != "a\uFFFDb" || card.Body != "c\uFFFDd" {
		t.Errorf("%q, %q", card.Title, card.Body)
	}
}

func TestAContractThatNothingCanFulfilIsRefused(t *testing.T) {
	b := newBoard(t)
	for contract, ok := range map[string]bool{
		"": true, "local-only": true, "o/r": true, "https://github.com/o/r/pull/1": true,
		"zzz": false, "https://example.org/o/r/pull/1": false, "o/r/x": false, "o /r": false,
	} {
		_, err := b.Create(t.Context(), NewTask{Title: "t", CompletionContract: contract})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "OWNER/NAME") {
			t.Errorf("%q: %v", contract, err)
		}
	}
}

// A person who ends a run that is over hears that, not what a worker hears.
func TestEndingARunThatIsOverSaysSo(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	claim, err := b.Claim(t.Context(), card.ID, Claimer{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Complete(t.Context(), card.ID, Completion{Run: &claim.Run.ID, Summary: "done"}); err != nil {
		t.Fatal(err)
	}
	_, err = b.Terminate(t.Context(), claim.Run.ID, "", "ada")
	if !errors.Is(err, ErrStaleRun) || !strings.Contains(err.Error(), "is over: the card is done") || strings.Contains(err.Error(), "stop working") {
		t.Errorf("%v", err)
	}
}

// A change without a field is a slip of whoever asks, and is said.
func TestAChangeOfNothingIsRefused(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	for name, err := range map[string]error{
		"edit": b.Edit(t.Context(), card.ID, Edit{}), "model": b.SetModel(t.Context(), card.ID, ModelChoice{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "nothing was changed; name a") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
