package sessiondb

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func runIndexer(t testing.TB, s *Store) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.RunIndexer(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("indexer: %v", err)
		}
	})
}

// Beside eight writers the indexer comes to the last row, and both indexes hold exactly the rows.
func TestIndexerReachesTheLastRow(t *testing.T) {
	s, _ := testStore(t)
	runIndexer(t, s)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			l := conversation(t, s)
			for i := range 25 {
				role := []string{"user", "tool"}[i%2]
				if _, err := s.Append(t.Context(), l, []NewMessage{{Role: role, Content: strings.Repeat(fmt.Sprintf("w%d r%d words ", w, i), 20)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkIndexes(t, s)
	equal(t, "words", number(t, s, `SELECT count(*) FROM messages_fts_docsize`), 200)
	equal(t, "fragments", number(t, s, `SELECT count(*) FROM messages_tri_docsize`), number(t, s, `SELECT count(*) FROM messages WHERE role <> 'tool'`))
	if err := s.RunIndexer(t.Context()); err == nil {
		t.Error("a second indexer ran")
	}
}

// A few rows wait half a second, sixteen do not.
func TestIndexerTimes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, _ := openStore(t, dir+"/state.db")
		l := conversation(t, s)
		runIndexer(t, s)
		synctest.Wait()
		mark := func() int64 { return number(t, s, `SELECT v FROM meta WHERE k = 'tri_mark'`) }
		say(t, s, l, "one")
		time.Sleep(indexAfter - time.Millisecond)
		say(t, s, l, "two")
		synctest.Wait()
		equal(t, "mark before its time", mark(), 0)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		equal(t, "mark after half a second", mark(), 2)
		say(t, s, l, make([]string, indexAtRows-1)...)
		synctest.Wait()
		equal(t, "mark with fifteen rows", mark(), 2)
		say(t, s, l, "sixteenth")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		equal(t, "mark with sixteen rows", mark(), 2+indexAtRows)
	})
}

// Damage to an index costs no row and no search: it is marked stale, scanned around, and built anew.
func TestDamagedIndexCostsNothing(t *testing.T) {
	for name, harm := range map[string]string{
		"blocks":    `UPDATE messages_fts_data SET block = zeroblob(20) WHERE id > 1`,
		"structure": `UPDATE messages_fts_data SET block = x'00000000ff' WHERE id = 10`,
		"config":    `UPDATE messages_fts_config SET v = 99 WHERE k = 'version'`,
		"gone":      `DROP TABLE messages_fts_data`,
		"docsize":   `DELETE FROM messages_fts_docsize`,
		"mark":      `DELETE FROM meta WHERE k = 'fts_mark'`,
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/state.db"
			s, _ := openStore(t, path)
			l := conversation(t, s)
			rows := say(t, s, l, "alpha beta", "beta gamma", "gamma delta")
			if err := s.WaitIndexed(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Close()
			if err := bare(t, path).Exec(harm); err != nil {
				t.Fatal(err)
			}
			s, log := openStore(t, path)
			equal(t, "hits", len(search(t, s, Query{Text: "beta"})), 2)
			say(t, s, l, "beta again")
			text := "beta changed"
			got, _ := s.Transcript(t.Context(), l.Session)
			if err := s.Repair(t.Context(), l, []RowRepair{{ID: rows[2].ID, OldDigest: got[2].Digest(), Content: &text}}); err != nil {
				t.Fatalf("repair beside a damaged index: %v", err)
			}
			equal(t, "hits with more rows", len(search(t, s, Query{Text: "beta"})), 4)
			runIndexer(t, s)
			if err := s.WaitIndexed(t.Context()); err != nil {
				t.Fatal(err)
			}
			equal(t, "rows", number(t, s, `SELECT count(*) FROM messages`), 4)
			if name != "docsize" { // an index that only miscounts lengths answers, and nobody notices: integrity-check does
				checkIndexes(t, s)
			}
			equal(t, "hits in the new index", len(search(t, s, Query{Text: "beta"})), 4)
			if said := log.count("search index damaged"); said > 2 {
				t.Errorf("said %d times:\n%s", said, log.text())
			}
		})
	}
}

func TestIndexStatesTellHowFar(t *testing.T) {
	s, _ := testStore(t)
	say(t, s, conversation(t, s), "a", "b", "c")
	got := func() string {
		states, err := s.IndexStates(t.Context())
		return fmt.Sprint(states, err)
	}
	equal(t, "new", got(), "[{messages_fts 0 3 false } {messages_tri 0 3 false }] <nil>")
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.markStale(t.Context(), fragments, fmt.Errorf("test")); err != nil {
		t.Fatal(err)
	}
	equal(t, "one stale", got(), "[{messages_fts 3 0 false } {messages_tri 0 3 true }] <nil>")
}

// Small chunks leave small segments; merging keeps them few, or a crisis merge would stop the writer for tens of
// milliseconds, and searches would visit each.
func TestSegmentsStayFew(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	for i := range 60 {
		say(t, s, l, fmt.Sprintf("row %d of many words", i))
		if err := s.WaitIndexed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, ix := range indexes {
		if n := number(t, s, `SELECT count(DISTINCT segid) FROM `+ix.table+`_idx`); n > 16 {
			t.Errorf("%s has %d segments", ix.table, n)
		}
	}
	checkIndexes(t, s)
}
