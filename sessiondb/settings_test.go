package sessiondb

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"gatewayd/internal/sqlite"
)

// poke writes what another program might have written.
func poke(t *testing.T, s *Store, query string, args ...any) {
	t.Helper()
	must(t, s.file.Write(t.Context(), sqlite.Op{
		Label: "poke", Patience: sqlite.Ordinary,
		Do:   func(tx *sqlite.Tx) error { _, err := tx.Exec(query, args...); return err },
		Done: func(*sqlite.Conn) (bool, error) { return false, nil },
	}))
}

func TestSettingsOutliveTheStoreAndKeepWhatANewerProgramWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	made, err := s.CreateSession(t.Context(), NewSession{Source: "test"})
	must(t, err)
	if got, err := s.Settings(t.Context(), made.ID); err != nil || got.Model != "" {
		t.Fatalf("a new session has settings: %+v %v", got, err)
	}
	poke(t, s, `UPDATE sessions SET settings = '{"model":"a","of tomorrow":{"x":1}}' WHERE id = ?`, made.ID)
	_, err = s.ChangeSettings(t.Context(), made.ID, func(c *Settings) { c.Busy = "steer" })
	must(t, err)
	must(t, s.Close())
	s, _ = openStore(t, path)
	got, err := s.Settings(t.Context(), made.ID)
	if err != nil || got.Model != "a" || got.Busy != "steer" || string(got.rest["of tomorrow"]) != `{"x":1}` {
		t.Errorf("got %+v %v", got, err)
	}
	if _, err := s.Settings(t.Context(), "nobody"); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("settings of nobody: %v", err)
	}
	if _, err := s.ChangeSettings(t.Context(), "nobody", func(*Settings) {}); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("change of nobody's settings: %v", err)
	}
}

func TestTwoChangesOfSettingsAtOnceAreBothThere(t *testing.T) {
	s, _ := testStore(t)
	made, err := s.CreateSession(t.Context(), NewSession{Source: "test"})
	must(t, err)
	var both sync.WaitGroup
	for _, change := range []func(*Settings){func(c *Settings) { c.Model = "m" }, func(c *Settings) { c.Busy = "queue" }} {
		both.Go(func() {
			if _, err := s.ChangeSettings(t.Context(), made.ID, change); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if got, _ := s.Settings(t.Context(), made.ID); got.Model != "m" || got.Busy != "queue" {
		t.Errorf("got %+v", got)
	}
}

func TestSettingsThatCannotBeReadCountAsNone(t *testing.T) {
	s, log := testStore(t)
	made, err := s.CreateSession(t.Context(), NewSession{Source: "test"})
	must(t, err)
	poke(t, s, `UPDATE sessions SET settings = 'no json' WHERE id = ?`, made.ID)
	if got, err := s.Settings(t.Context(), made.ID); err != nil || got.Model != "" || log.count("cannot be read") != 1 {
		t.Errorf("got %+v %v, log %s", got, err, log.text())
	}
}

func TestAModelForOneTurnIsTakenOnce(t *testing.T) {
	s, _ := testStore(t)
	made, err := s.CreateSession(t.Context(), NewSession{Source: "test"})
	must(t, err)
	_, err = s.ChangeSettings(t.Context(), made.ID, func(c *Settings) { c.Model, c.Once = "usual", "rare" })
	must(t, err)
	for _, want := range []string{"rare", "usual", "usual"} {
		if got, err := s.TakeModel(t.Context(), made.ID); err != nil || got.Model != want {
			t.Errorf("got %+v %v, want %s", got, err, want)
		}
	}
}
