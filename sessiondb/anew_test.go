package sessiondb

import (
	"errors"
	"testing"

	"gatewayd/internal/problem"
)

func TestBeginningAnewMovesEveryKeyAndDropsWhatWaited(t *testing.T) {
	s, _ := testStore(t)
	old, err := s.CreateSession(t.Context(), NewSession{Key: "k", Source: "test"})
	must(t, err)
	_, err = s.Bind(t.Context(), "k2", old.ID)
	must(t, err)
	poke(t, s, `INSERT INTO inbox(uid, session_id, mode, source, content, created_at) VALUES('u', ?, 'turn', 'test', 'waits', 1)`, old.ID)
	l, err := s.TryTurn(t.Context(), old.ID, self(t), 0)
	must(t, err)
	made, err := s.BeginAnew(t.Context(), l, NewSession{Source: "test"})
	if err != nil || made.Dropped != 1 || made.Session.ID == old.ID || made.Session.Key != "k" {
		t.Fatalf("got %+v %v", made, err)
	}
	for _, key := range []string{"k", "k2"} {
		if got, err := s.SessionByKey(t.Context(), key); err != nil || got.ID != made.Session.ID {
			t.Errorf("%s leads to %s, %v", key, got.ID, err)
		}
	}
	if got, _ := s.Session(t.Context(), old.ID); got.EndReason != EndNew {
		t.Errorf("the old one: %+v", got)
	}
	if _, err := s.BeginAnew(t.Context(), l, NewSession{}); !errors.Is(err, ErrSessionEnded) {
		t.Errorf("a second time: %v", err)
	}
}

func TestBeginningAnewNeedsTheTurnLease(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	must(t, s.Release(t.Context(), l))
	if _, err := s.BeginAnew(t.Context(), l, NewSession{}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("without the lease: %v", err)
	}
	if got, _ := s.Session(t.Context(), l.Session); got.EndedAt != nil {
		t.Error("it ended all the same")
	}
}

func TestBindingOpensASessionAndFollowsWhatCompactionContinued(t *testing.T) {
	s, _ := testStore(t)
	first, err := s.CreateSession(t.Context(), NewSession{Source: "test"})
	must(t, err)
	_, err = s.EndSession(t.Context(), first.ID, EndCompression)
	must(t, err)
	next, err := s.CreateSession(t.Context(), NewSession{Source: "test", Parent: first.ID})
	must(t, err)
	_, err = s.EndSession(t.Context(), next.ID, EndNew)
	must(t, err)
	got, err := s.Bind(t.Context(), "k", first.ID)
	if err != nil || got.ID != next.ID || got.EndedAt != nil {
		t.Fatalf("got %+v %v", got, err)
	}
	if now, made, err := s.Resolve(t.Context(), NewSession{Key: "k"}); err != nil || made || now.ID != next.ID {
		t.Errorf("the key leads to %+v (made %v), %v", now, made, err)
	}
	if _, err := s.Bind(t.Context(), "k", "nobody"); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("nobody: %v", err)
	}
}

func TestASessionIsFoundByTheSurestWay(t *testing.T) {
	s, _ := testStore(t)
	for _, n := range []NewSession{{ID: "alpha-1", Title: "Garden"}, {ID: "alpha-2", Title: "Garden shed"}, {ID: "Garden s", Title: ""}, {ID: "beta_%", Title: "per % cent"}} {
		_, err := s.CreateSession(t.Context(), n)
		must(t, err)
	}
	for text, want := range map[string]int{"alpha-1": 1, "alpha": 2, "Garden": 1, "garden": 1, "gard": 2, "Garden s": 1, "garden sh": 1, "%": 0, "per %": 1, "_": 0, " ": 0, "nothing": 0} {
		if got, err := s.Find(t.Context(), text); err != nil || len(got) != want {
			t.Errorf("%q finds %d, want %d, %v", text, len(got), want, err)
		}
	}
}

func TestATitleBelongsToOneSession(t *testing.T) {
	s, _ := testStore(t)
	for _, id := range []string{"a", "b"} {
		_, err := s.CreateSession(t.Context(), NewSession{ID: id})
		must(t, err)
	}
	must(t, s.SetTitle(t.Context(), "a", "the one"))
	must(t, s.SetTitle(t.Context(), "a", "the one"))
	if err := s.SetTitle(t.Context(), "b", "the one"); !problem.Is(err, problem.Conflict) {
		t.Errorf("a title that is taken: %v", err)
	}
	must(t, s.SetTitle(t.Context(), "a", ""))
	must(t, s.SetTitle(t.Context(), "b", ""))
	must(t, s.SetTitle(t.Context(), "b", "the one"))
}
