package sessiondb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/sqlite"
)

// What a person deleted does not come back from a spool or a capture of before. Both keep what they have.
func TestADeletedSessionDoesNotComeBack(t *testing.T) {
	path, old, young, _ := lossy(t)
	s, _ := openStore(t, path) // without healing
	must(t, s.Release(t.Context(), old))
	_, err := s.Delete(t.Context(), old.Session)
	must(t, err)
	out, err := s.Replay(t.Context(), false)
	must(t, err)
	if out.Stored != 0 || len(out.Kept) != 1 || !strings.Contains(out.Kept[0].Reason, "was deleted") || spoolCount(t, s).Kept != 1 {
		t.Errorf("replayed: %+v", out)
	}
	captures, err := sqlite.Captures(path)
	must(t, err)
	for _, dry := range []bool{true, false} {
		report, err := s.Salvage(t.Context(), captures[0], dry)
		must(t, err)
		equal(t, "salvaged", fmt.Sprint(report.Deleted, report.Sessions, report.Messages), fmt.Sprint([]string{old.Session}, 1, 2))
	}
	equal(t, "sessions", number(t, s, `SELECT count(*) FROM sessions WHERE id <> ?`, young.Session), 0)
	_, err = s.CreateSession(t.Context(), NewSession{ID: old.Session}) // by name
	must(t, err)
	again, err := s.Replay(t.Context(), true)
	must(t, err)
	equal(t, "stored when there is one again", again.Stored, 1)
}

func TestTombstonesAreBounded(t *testing.T) {
	s, _ := testStore(t)
	write(t, s, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO meta(k, v) SELECT 'deleted:' || i, i FROM n`, mostTombstones)
	l := conversation(t, s)
	must(t, s.Release(t.Context(), l))
	_, err := s.Delete(t.Context(), l.Session)
	must(t, err)
	equal(t, "tombstones", number(t, s, `SELECT count(*) FROM meta WHERE k GLOB 'deleted:*'`), mostTombstones)
	equal(t, "the oldest", number(t, s, `SELECT count(*) FROM meta WHERE k = 'deleted:1'`), 0)
	equal(t, "the newest", number(t, s, `SELECT count(*) FROM meta WHERE k = ? AND v > ?`, tombstone+l.Session, time.Now().Add(-time.Hour).UnixMicro()), 1)
}
