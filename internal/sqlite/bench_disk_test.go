package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// The same append with and without what is checked around it, in turns: the identity of the three files, the reason not
// to write, the header, and the look for a torn file. What a check costs the sync that follows it is in the figure.
func BenchmarkAppendBesideUnguarded(b *testing.B) {
	on := true
	o := Options{
		Path: filepath.Join(b.TempDir(), "bench.db"), Create: true, TornCheck: true,
		Stale:   func(c *Conn) (bool, error) { return true, nil },
		Migrate: func(tx *Tx) error { return tx.Script(benchSchema) },
	}
	o.seams.guards = func() bool { return on }
	f, err := Open(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	took := map[bool][]time.Duration{}
	for range 1500 { // one round of the -wal, so that it is overwritten
		f.Write(context.Background(), durableAppend(1))
	}
	for b.Loop() {
		for i := range 40 {
			on = i%2 == 0
			f.opts.TornCheck = on // read by the writer between two writes of ours
			start := time.Now()
			if err := f.Write(context.Background(), durableAppend(1)); err != nil {
				b.Fatal(err)
			}
			took[on] = append(took[on], time.Since(start))
		}
	}
	with, without := median(took[true]), median(took[false])
	b.ReportMetric(with/1e3, "µs/append")
	b.ReportMetric(without/1e3, "µs/unguarded")
	b.ReportMetric(with/without, "x-unguarded")
}

// logBytes is the length of the -wal that a killed process left in BenchmarkRecovery.
const logBytes = 64 << 20

// leftBehind makes a database with a long -wal and gives its directory as a killed process leaves it: nobody closed it.
func leftBehind(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	path := filepath.Join(dir, "bench.db")
	db, err := OpenBare(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	if err := db.Exec("PRAGMA wal_autocheckpoint=0;" + benchSchema); err != nil {
		b.Fatal(err)
	}
	for {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			b.Fatal(err)
		}
		if info.Size() >= logBytes {
			return dir
		}
		const rows = `INSERT INTO messages (uid, session, body) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 100)
			SELECT hex(randomblob(16)), i % 64 + 1, hex(randomblob(500)) FROM n`
		if err := db.Exec(rows); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRecovery opens it and takes the time to the first read and to the first durable write, of ours and of the bare
// library in turns.
func BenchmarkRecovery(b *testing.B) {
	left := leftBehind(b)
	took := map[string][]time.Duration{}
	for b.Loop() {
		for name, open := range map[string]func(string) (read, write time.Duration, err error){"ours": recoverOurs, "bare": recoverBare} {
			dir := b.TempDir()
			for _, file := range []string{"bench.db", "bench.db-wal"} {
				if err := copyFile(filepath.Join(left, file), filepath.Join(dir, file)); err != nil {
					b.Fatal(err)
				}
			}
			read, write, err := open(filepath.Join(dir, "bench.db"))
			if err != nil {
				b.Fatal(err)
			}
			took[name+" read"] = append(took[name+" read"], read)
			took[name+" write"] = append(took[name+" write"], write)
			os.RemoveAll(dir)
		}
	}
	for _, what := range []string{"read", "write"} {
		ours, bare := median(took["ours "+what]), median(took["bare "+what])
		b.ReportMetric(ours/1e6, "ms/"+what)
		b.ReportMetric(bare/1e6, "ms/bare-"+what)
	}
}

func recoverOurs(path string) (read, write time.Duration, err error) {
	start := time.Now()
	f, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	err = f.Read(context.Background(), func(c *Conn) error {
		_, err := c.Row("SELECT count FROM sessions WHERE id = 1", nil, new(int))
		return err
	})
	read = time.Since(start)
	err = errors.Join(err, f.Write(context.Background(), durableAppend(1)))
	return read, time.Since(start), err
}

func recoverBare(path string) (read, write time.Duration, err error) {
	start := time.Now()
	db, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	if _, err := db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
		return 0, 0, err
	}
	// Without its own checkpoint, which would copy the whole log inside the first COMMIT; ours does so after answering.
	err = db.Exec("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; SELECT count FROM sessions WHERE id = 1")
	read = time.Since(start)
	err = errors.Join(err, db.Exec("INSERT INTO messages (uid, session, body) VALUES (hex(randomblob(16)), 1, 'body')"))
	return read, time.Since(start), err
}
