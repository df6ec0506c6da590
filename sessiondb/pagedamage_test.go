package sessiondb

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// damagedStore is a closed store with three indexed rows, in which the root pages of some tables are overwritten on the
// disk.
func damagedStore(t *testing.T, tables ...string) (path string, session string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	l := conversation(t, s)
	say(t, s, l, "apples", "pears", "plums")
	must(t, s.WaitIndexed(t.Context()))
	must(t, s.Release(t.Context(), l))
	res, err := s.file.Checkpoint(t.Context())
	if err != nil || res.Done != res.Log {
		t.Fatal(res, err)
	}
	size := number(t, s, `PRAGMA page_size`)
	var roots []int64
	for _, table := range tables {
		roots = append(roots, number(t, s, `SELECT rootpage FROM sqlite_schema WHERE name = ?`, table))
	}
	must(t, s.Close())
	must(t, os.Truncate(path+"-wal", 0)) // all of it is in the file
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	for _, root := range roots {
		_, err := file.WriteAt(bytes.Repeat([]byte{0x5a}, int(size)), (root-1)*size)
		must(t, err)
	}
	return path, l.Session
}

// A page of a search index that is overwritten on the disk costs the index and nothing else: rows are written and found, and
// the index is built anew, without the damaged pages being walked through.
func TestDamagedPagesOfAnIndexCostTheIndexAlone(t *testing.T) {
	for _, tables := range [][]string{{"messages_fts_data"}, {"messages_fts_idx", "messages_fts_docsize"}, {"messages_fts_config"}} {
		t.Run(strings.Join(tables, "+"), func(t *testing.T) {
			path, session := damagedStore(t, tables...)
			s, _ := openStore(t, path)
			hits, err := s.Search(t.Context(), Query{Text: "pears"})
			must(t, err)
			equal(t, "hits", len(hits), 1)
			l, err := s.AcquireTurn(t.Context(), session, self(t), 0)
			must(t, err)
			rows := say(t, s, l, "cherries")
			text := "melons"
			must(t, s.Repair(t.Context(), l, []RowRepair{{ID: rows[0].ID, OldDigest: rows[0].Digest(), Content: &text}}))
			must(t, s.WaitIndexed(t.Context()))
			for _, word := range []string{"apples", "plums", "melons"} {
				hits, err := s.Search(t.Context(), Query{Text: word})
				must(t, err)
				equal(t, word, len(hits), 1)
			}
			equal(t, "stale", number(t, s, `SELECT count(*) FROM meta WHERE k LIKE '%stale'`), 0)
			checkIndexes(t, s)
			if err := s.Writable(); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			must(t, s.RunIndexer(ctx))
		})
	}
}

// The same pages, and one of the rows': what an index meets first is no reason to believe that the rest is sound.
func TestDamageBesideThatOfAnIndexQuarantines(t *testing.T) {
	path, session := damagedStore(t, "messages_fts_data", "messages_by_session")
	s, _ := openStore(t, path)
	_, err := s.Search(t.Context(), Query{Text: "pears"})
	if sqlite.ClassOf(err) != sqlite.Corrupt || s.file.Reason() != sqlite.ReasonCorrupt {
		t.Errorf("search: %v, reason %q", err, s.file.Reason())
	}
	if _, err := s.Append(t.Context(), Lease{Session: session, Kind: Turn, Token: "t"}, []NewMessage{{Role: "user", Content: "x"}}); !errors.Is(err, ErrSpooled) {
		t.Errorf("append: %v", err)
	}
}

// A repair that has to give rows up leaves counters that agree with the rows that are left: an audit afterwards has
// nothing to blame on a conversation that nobody can mend by hand.
func TestARepairThatGivesRowsUpCountsTheOnesThatAreLeft(t *testing.T) {
	path, _ := damagedStore(t, "messages")
	report, err := sqlite.Repair(t.Context(), RepairOptions(path, nil))
	must(t, err)
	equal(t, "left", report.After["messages"], 0)
	equal(t, "sessions", report.After["sessions"], 1)
	s, _ := openStore(t, path)
	equal(t, "audit", codes(verified(t, s, VerifyOptions{})), "")
}
