package kanban

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// writeLog appends to a card's log as its keeper does.
func writeLog(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestALogIsFollowedAcrossItsRotationUntilTheRunEnds(t *testing.T) {
	r := newRoot(t)
	path := r.LogPath(DefaultSlug, "t_1")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 100)
	tick, lost := make(chan time.Time), atomic.Int64{}
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- r.FollowLog(t.Context(), DefaultSlug, "t_1", said(out), Follow{
			Ended: func(context.Context) (bool, error) { return over.Load(), nil }, Tick: tick, Lost: func() { lost.Add(1) },
		})
	}()
	got := ""
	wants := func(text string) { // looks until it is there
		t.Helper()
		for got = ""; got != text; {
			select {
			case tick <- time.Time{}:
			case piece := <-out:
				got += piece
			case err := <-ended:
				t.Fatalf("ended with %q, %v; want %q", got, err, text)
			}
			if !strings.HasPrefix(text, got) {
				t.Fatalf("got %q, want %q", got, text)
			}
		}
	}
	tick <- time.Time{} // nothing is there yet
	writeLog(t, path, "one\n")
	wants("one\n")
	writeLog(t, path, "two\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	writeLog(t, path, "three\n")
	wants("two\nthree\n")
	over.Store(true)
	writeLog(t, path, "last words\n")
	wants("last words\n")
	for { // it looks once more after the end, and ends when nothing came
		select {
		case tick <- time.Time{}:
			continue
		case err := <-ended:
			if err != nil || lost.Load() != 0 || len(out) != 0 {
				t.Errorf("%v, lost %d", err, lost.Load())
			}
		}
		return
	}
}

// said is a writer that never blocks a test.
type said chan string

func (s said) Write(p []byte) (int, error) { s <- string(p); return len(p), nil }

func TestTheEndOfALogIsReadOverBothGenerations(t *testing.T) {
	r := newRoot(t)
	if log, err := r.ReadLog(DefaultSlug, "t_1", 10); err != nil || log.Exists || log.Size != 0 {
		t.Errorf("a log that is not there: %+v, %v", log, err)
	}
	path := r.LogPath(DefaultSlug, "t_1")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	writeLog(t, path+".1", strings.Repeat("a", 100))
	writeLog(t, path, strings.Repeat("b", 5))
	for tail, want := range map[int64]string{0: strings.Repeat("a", 100) + "bbbbb", 3: "bbb", 7: "aabbbbb", 1000: strings.Repeat("a", 100) + "bbbbb"} {
		log, err := r.ReadLog(DefaultSlug, "t_1", tail)
		if err != nil || log.Content != want || log.Size != 105 || log.Truncated != (len(want) < 105) {
			t.Errorf("tail %d: %+v, %v", tail, log, err)
		}
	}
	if _, err := r.ReadLog(DefaultSlug, "../../kanban.db", 0); err != nil {
		t.Errorf("a name that leads out: %v", err)
	}
}

func TestAHolderOfALockIsSeenWithoutTakingIt(t *testing.T) {
	r := newRoot(t)
	lock, err := r.TrySingletonLock()
	if err != nil {
		t.Fatal(err)
	}
	s := StateOfLock(r.SingletonLockPath())
	if !s.Held || s.PID != os.Getpid() || s.Since == 0 || s.Host == "" || s.Command == "" {
		t.Errorf("held: %+v", s)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if s := StateOfLock(r.SingletonLockPath()); s.Held || s.PID != os.Getpid() {
		t.Errorf("let go: %+v", s)
	}
}

func TestEventsAreChosenAndTheCursorPassesTheOthers(t *testing.T) {
	b := newBoard(t)
	mine := b.make(t, NewTask{Assignee: "a", Tenant: "x"})
	other := b.make(t, NewTask{Assignee: "b"})
	latest, err := b.LatestEvent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		f    EventFilter
		want string
	}{
		"card":     {EventFilter{Task: other.ID}, other.ID},
		"assignee": {EventFilter{Assignee: "A"}, mine.ID},
		"tenant":   {EventFilter{Tenant: "x"}, mine.ID},
	} {
		events, cursor, err := b.EventsOf(t.Context(), c.f)
		if err != nil || len(events) != 1 || events[0].TaskID != c.want || cursor != latest {
			t.Errorf("%s: %+v, cursor %d of %d, %v", name, events, cursor, latest, err)
		}
	}
	if events, cursor, err := b.EventsOf(t.Context(), EventFilter{Kinds: []string{"claimed", "created"}, Limit: 1}); err != nil || len(events) != 1 || cursor != events[0].ID {
		t.Errorf("a full page: %+v, %d, %v", events, cursor, err)
	}
	stats, err := b.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if list := stats.Assignees([]string{"b", "c"}); len(list) != 3 || list[0].OnDisk || !list[1].OnDisk || list[2].Name != "c" {
		t.Errorf("%+v", list)
	}
}
