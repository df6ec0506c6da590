package sessiondb

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/sqlite"
)

// fill writes n rows of about 1 KB of pseudo-English, in sessions of 400, and indexes them without resting.
func fill(b *testing.B, s *Store, n int) (last Lease) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	vocabulary := make([]string, 5000)
	for i := range vocabulary {
		vocabulary[i] = fmt.Sprintf("%s%d", []string{"ap", "be", "cor", "dun", "el"}[i%5], i)
	}
	text := func(i int) string {
		var t strings.Builder
		fmt.Fprintf(&t, "row %d ", i)
		for t.Len() < 1000 {
			t.WriteString(vocabulary[min(int(random.ExpFloat64()*600), len(vocabulary)-1)])
			t.WriteByte(' ')
		}
		if i%2 == 0 {
			t.WriteString("frequent ")
		}
		if i%20000 == 7 {
			t.WriteString("needle")
		}
		return t.String()
	}
	for i := 0; i < n; {
		last = conversation(b, s)
		rows := make([]NewMessage, 0, 400)
		for ; len(rows) < 400 && i < n; i++ {
			rows = append(rows, NewMessage{Role: []string{"user", "assistant", "tool", "assistant"}[i%4], Content: text(i)})
		}
		if _, err := s.Append(b.Context(), last, rows); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.WaitIndexed(b.Context()); err != nil {
		b.Fatal(err)
	}
	return last
}

// BenchmarkLoad compares a conversation of 400 rows with the bare SELECT of the same columns (target: 1.3 times).
func BenchmarkLoad(b *testing.B) {
	s, _ := openWith(b, Options{Path: b.TempDir() + "/state.db", KeepBytes: -1})
	l := fill(b, s, 4000)
	db := bare(b, s.file.Path())
	stmt, _, err := db.PrepareFlags(selectTranscript, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		b.Fatal(err)
	}
	var ours, theirs []time.Duration
	for b.Loop() {
		began := time.Now()
		rows, err := s.Transcript(b.Context(), l.Session)
		if err != nil || len(rows) != 400 {
			b.Fatal(len(rows), err)
		}
		middle := time.Now()
		if n := bareLoad(stmt, l.Session); n != 400 {
			b.Fatal(n)
		}
		ours, theirs = append(ours, middle.Sub(began)), append(theirs, time.Since(middle))
	}
	b.ReportMetric(float64(median(ours).Microseconds()), "µs-p50")
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "ratio")
}

// bareLoad makes a Go value of every column and keeps none for longer than a row.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func bareLoad(stmt *sqlite3.Stmt, session string) (n int) {
	var row [32]any
	stmt.BindText(1, session)
	stmt.BindInt(2, 0)
	for stmt.Step() {
		for i := range stmt.ColumnCount() {
			switch stmt.ColumnType(i) {
			case sqlite3.TEXT:
				row[i] = stmt.ColumnText(i)
			case sqlite3.INTEGER:
				row[i] = stmt.ColumnInt64(i)
			}
		}
		n++
	}
	stmt.Reset()
	runtime.KeepAlive(&row)
	return n
}

// BenchmarkSearch searches 100,000 messages (targets: a rare word 1 ms, a common one 2 ms).
func BenchmarkSearch(b *testing.B) {
	s, _ := testStore(b)
	l := fill(b, s, 100_000)
	for _, c := range []struct {
		name string
		q    Query
	}{
		{"rare", Query{Text: "needle"}},
		{"common", Query{Text: "frequent"}},
		{"common relevance", Query{Text: "frequent", Sort: Relevance}},
		{"phrase", Query{Text: `"frequent needle"`}},
		{"fragment", Query{Text: "eedl"}},
		{"none", Query{Text: "absent"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Search(b.Context(), c.q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	say(b, s, l, "a frequent tail", "2", "3", "4", "5", "6", "7", "8")
	b.Run("common with a tail of 8", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Search(b.Context(), Query{Text: "frequent"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAppendBesideIndexer appends 1 KB rows every 3 ms while the indexer works (target: p99 10 ms), over indexes that
// hold 10,000 rows already.
func BenchmarkAppendBesideIndexer(b *testing.B) {
	for _, c := range []struct {
		name    string
		backlog bool
		indexer bool
	}{{"off", false, false}, {"steady", false, true}, {"backlog", true, true}} {
		b.Run(c.name, func(b *testing.B) { appendBeside(b, c.backlog, c.indexer) })
	}
}

func appendBeside(b *testing.B, backlog, indexer bool) {
	s, _ := testStore(b)
	l := fill(b, s, 10_000)
	if backlog {
		for _, ix := range indexes { // everything is to be indexed again
			if err := s.file.Write(b.Context(), sqlite.Op{Label: "stale", Do: func(tx *sqlite.Tx) error { return ix.setStale(tx, staleContent) }}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if indexer {
		runIndexer(b, s)
	}
	text := strings.Repeat("words of a new message ", 44)
	var took []time.Duration
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for b.Loop() {
		<-tick.C
		began := time.Now()
		say(b, s, l, text)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
}
