package sessiondb

import (
	"errors"
	"os"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// A turn that goes on after its store lost the log and was healed says the rest of what it says, in order.
func TestATurnGoesOnAfterItsLeaseWasLostWithTheLog(t *testing.T) {
	path, going, dead := lostLeasesOf(t)
	s, _ := healed(t, path)
	if _, err := s.Append(t.Context(), going, []NewMessage{{Role: "assistant", Content: "after", Kind: "closing"}}); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Transcript(t.Context(), going.Session)
	must(t, err)
	equal(t, "transcript", strings.Join(contents(rows), " "), "before spooled after")
	must(t, s.Release(t.Context(), going))
	equal(t, "leases, that of a holder that is gone among them", number(t, s, `SELECT count(*) FROM leases`), 0)
	if _, err := s.Append(t.Context(), dead, []NewMessage{{Role: "user", Content: "of the dead"}}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the lease of a holder that is gone came back: %v", err)
	}
}

// Who took the session since has it.
func TestALostLeaseDoesNotComeBackOverALaterOne(t *testing.T) {
	path, going, _ := lostLeasesOf(t)
	s, _ := openStore(t, path) // without healing
	later, err := s.TryTurn(t.Context(), going.Session, self(t), 0)
	must(t, err)
	s.salvageOwn(t.Context())
	captures, err := sqlite.Captures(path)
	must(t, err)
	if len(captures) != 1 || !captures[0].Salvaged() {
		t.Fatalf("not salvaged: %+v", captures)
	}
	if _, err := s.Append(t.Context(), going, []NewMessage{{Role: "user", Content: "too late"}}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("two turns write one session: %v", err)
	}
	say(t, s, later, "later")
}

// A turn that ended while its store was lost does not hold up the next one.
func TestALostLeaseThatWasGivenBackInTheSpoolIsGone(t *testing.T) {
	path, going, _ := lostLeasesOf(t)
	again, _ := openStore(t, path)
	must(t, again.spool.Release(t.Context(), going, errors.New("lost")))
	must(t, again.Close())
	next, _ := healed(t, path)
	if _, err := next.TryTurn(t.Context(), going.Session, self(t), 0); err != nil {
		t.Error(err)
	}
}

// lostLeasesOf is a closed store whose -wal alone held two leases and was lost: of a turn of this process that said
// "before" and then "spooled", and of a turn whose process is gone.
func lostLeasesOf(t *testing.T) (path string, going, dead Lease) {
	t.Helper()
	s, _ := testStore(t)
	path = s.file.Path()
	ids := []string{}
	for range 2 {
		made, err := s.CreateSession(t.Context(), NewSession{})
		must(t, err)
		ids = append(ids, made.ID)
	}
	_, err := s.file.Checkpoint(t.Context())
	must(t, err)
	gone := self(t)
	gone.Start++ // another process had this pid
	dead, err = s.TryTurn(t.Context(), ids[1], gone, 0)
	must(t, err)
	going, err = s.TryTurn(t.Context(), ids[0], self(t), 0)
	must(t, err)
	say(t, s, going, "before")
	must(t, os.Remove(path+"-wal"))
	if _, err := s.Append(t.Context(), going, []NewMessage{{Role: "assistant", Content: "spooled"}}); !errors.Is(err, ErrSpooled) {
		t.Fatal(err)
	}
	must(t, s.Close())
	return path, going, dead
}
