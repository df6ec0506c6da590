package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const benchSchema = `PRAGMA application_id = 1;
CREATE TABLE sessions (id INTEGER PRIMARY KEY, count INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT NOT NULL UNIQUE, session INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX messages_session ON messages (session, id);
INSERT INTO sessions (id) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 64) SELECT i FROM n;`

var benchBody = strings.Repeat("a message of a kilobyte. ", 41)

func benchFile(b *testing.B) *File {
	b.Helper()
	f, err := Open(context.Background(), Options{
		Path: filepath.Join(b.TempDir(), "bench.db"), Create: true,
		Stale:   func(c *Conn) (bool, error) { return true, nil },
		Migrate: func(tx *Tx) error { return tx.Script(benchSchema) },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

// durableAppend is one message row, its indexes and the session's counter.
func durableAppend(session int) Op {
	uid := rand.Text()
	return Op{Label: "append", Do: func(tx *Tx) error {
		if _, err := tx.Exec("INSERT INTO messages (uid, session, body) VALUES (?, ?, ?)", uid, session, benchBody); err != nil {
			return err
		}
		_, err := tx.Exec("UPDATE sessions SET count = count + 1 WHERE id = ?", session)
		return err
	}}
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2])
}

// The append and its floor are measured in turns, so that what the disk does meanwhile meets both.
func BenchmarkDurableAppend(b *testing.B) {
	f := benchFile(b)
	floor, err := NewFloor(f.dir())
	if err != nil {
		b.Fatal(err)
	}
	defer floor.Close()
	var appends, floors, overs []time.Duration
	timed := func(into *[]time.Duration, fn func() error) {
		start := time.Now()
		if err := fn(); err != nil {
			b.Fatal(err)
		}
		*into = append(*into, time.Since(start))
	}
	for range 1500 { // one round of the -wal, so that it is overwritten like the floor
		f.Write(context.Background(), durableAppend(1))
	}
	for b.Loop() {
		for range 20 {
			timed(&appends, func() error { return f.Write(context.Background(), durableAppend(1)) })
		}
		for range 20 {
			timed(&floors, floor.Append)
			timed(&overs, floor.Overwrite)
		}
	}
	b.ReportMetric(median(appends)/1e3, "µs/append")
	b.ReportMetric(median(appends)/median(floors), "x-floor")
	b.ReportMetric(median(appends)/median(overs), "x-overwrite")
}

func BenchmarkSessions(b *testing.B) {
	rate := func(f *File, sessions int) float64 {
		const run = 700 * time.Millisecond
		var wg sync.WaitGroup
		counts := make([]int, sessions)
		start := time.Now()
		for s := range sessions {
			wg.Go(func() {
				for time.Since(start) < run {
					if err := f.Write(context.Background(), durableAppend(s+1)); err != nil {
						b.Error(err)
						return
					}
					counts[s]++
				}
			})
		}
		wg.Wait()
		total := 0
		for _, n := range counts {
			total += n
		}
		return float64(total) / time.Since(start).Seconds()
	}
	f := benchFile(b)
	var one, many []float64
	for b.Loop() {
		one = append(one, rate(f, 1))
		many = append(many, rate(f, 64))
	}
	slices.Sort(one)
	slices.Sort(many)
	b.ReportMetric(one[len(one)/2], "rows/s-1")
	b.ReportMetric(many[len(many)/2], "rows/s-64")
	b.ReportMetric(many[len(many)/2]/one[len(one)/2], "x-one")
}

func BenchmarkOpen(b *testing.B) {
	f := benchFile(b)
	o := f.opts
	o.Stale, o.Create = nil, false
	for b.Loop() {
		g, err := Open(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		g.Close()
	}
}

func BenchmarkStamp(b *testing.B) {
	f := benchFile(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Stamp(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIdentity(b *testing.B) {
	f := benchFile(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := f.checkIdentity(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoadConversation(b *testing.B) {
	f := benchFile(b)
	for range 400 {
		if err := f.Write(context.Background(), durableAppend(1)); err != nil {
			b.Fatal(err)
		}
	}
	const query = "SELECT id, uid, body FROM messages WHERE session = ? ORDER BY id"
	bare, err := OpenBare(f.Path())
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	stmt, _, err := bare.Prepare(query)
	if err != nil {
		b.Fatal(err)
	}
	defer stmt.Close()
	type message struct {
		id        int64
		uid, body string
	}
	var ours, theirs []time.Duration
	for b.Loop() {
		start := time.Now()
		var got []message
		err := f.Read(context.Background(), func(c *Conn) error {
			got = got[:0]
			for row, err := range c.Query(query, 1) {
				if err != nil {
					return err
				}
				got = append(got, message{row.Int(0), row.Text(1), row.Text(2)})
			}
			return nil
		})
		if err != nil || len(got) != 400 {
			b.Fatal(len(got), err)
		}
		ours = append(ours, time.Since(start))
		start = time.Now()
		var raw []message
		stmt.BindInt(1, 1)
		for stmt.Step() {
			raw = append(raw, message{stmt.ColumnInt64(0), stmt.ColumnText(1), stmt.ColumnText(2)})
		}
		stmt.Reset()
		theirs = append(theirs, time.Since(start))
		if len(raw) != len(got) {
			b.Fatal("the bare query reads something else")
		}
	}
	b.ReportMetric(median(ours)/median(theirs), "x-bare")
	b.ReportMetric(median(ours)/1e3, fmt.Sprintf("µs/%d", 400))
}
