package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"gatewayd/internal/problem"
)

// A copy beside a live writer takes a megabyte, rests as long as that took, and gives the disk what it wrote often
// enough that no single sync is long: a writer's commit waits for the syncs of its neighbours.
const (
	copyStep     = 256 // pages
	copyRest     = 50 * time.Millisecond
	copySync     = 4 // steps
	copyRestarts = 3 // of a database in rollback mode that changes meanwhile, before its writers are made to wait
	copyBusy     = 30 * time.Second
)

// source opens a connection that only reads, on a file of which this process has no handle. It decides nothing about
// the journal and changes nothing.
func source(ctx context.Context, path, label string) (*File, *Conn, error) {
	f, err := newFile(Options{Path: path, Label: label})
	if err != nil {
		return nil, nil, err
	}
	if err := f.preflight(ctx); err != nil {
		return nil, nil, err
	}
	c, err := f.dial()
	if err != nil {
		return nil, nil, f.explain(err, "it was left as it is")
	}
	err = guard(func() (err error) {
		if f.journal.Mode, err = c.pragma("journal_mode"); err != nil {
			return fmt.Errorf("probe journal mode: %w", err)
		}
		return f.settle(c, roleReader)
	})
	if err != nil {
		f.drop(c)
		return nil, nil, f.explain(err, "it was left as it is")
	}
	return f, c, nil
}

// copyTo makes a file that holds the database as one moment shows it, and syncs it. Writers go on meanwhile: in WAL
// they always do; in rollback mode a copy that was overtaken three times makes them wait. Between two steps it rests
// as long as a step took, at most rest.
func (f *File) copyTo(ctx context.Context, c *Conn, to string, rest time.Duration) error {
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make copy: %w", err)
	}
	defer out.Close()
	b, err := c.db.BackupInit("main", fileURI(to, ""))
	if err != nil {
		return fmt.Errorf("begin copy: %w", err)
	}
	err = f.copySteps(ctx, c, b, out, rest)
	return errors.Join(err, b.Close(), out.Sync(), out.Close())
}

func (f *File) copySteps(ctx context.Context, c *Conn, b *sqlite3.Backup, out *os.File, rest time.Duration) error {
	begun, before, restarts := time.Now(), 0, 0
	for step := 1; ; step++ {
		if restarts == copyRestarts && c.db.GetAutocommit() {
			if err := c.beginSnapshot(); err != nil {
				return err
			}
			defer c.rollback()
		}
		at := time.Now()
		done, err := b.Step(copyStep)
		switch {
		case done:
			return nil
		case ClassOf(err) == Busy && time.Since(begun) < copyBusy:
		case err != nil:
			return fmt.Errorf("copy pages: %w", err)
		}
		copied := b.PageCount() - b.Remaining()
		if copied <= before {
			restarts++
		}
		before = copied
		if err := f.halted(); err != nil {
			return err // until this handle is closed nobody can open what lies there now
		}
		if step%copySync == 0 {
			if err := out.Sync(); err != nil {
				return fmt.Errorf("sync copy: %w", err)
			}
		}
		if err := sleep(ctx, min(time.Since(at), rest)); err != nil {
			return err
		}
	}
}

// beginSnapshot fixes the moment that is read from now on.
func (c *Conn) beginSnapshot() error {
	if err := c.control(sqlBeginRead); err != nil {
		return err
	}
	_, err := c.pragma("schema_version")
	return err
}

// checked is what a look into a sealed file found.
type checked struct {
	counts               map[string]int64
	application, version int64
	index                []string // damage to search indexes, which costs no row
}

// checkSealed verifies a database that nobody has open, without a sidecar beside it and without making one: the
// integrity of every page, and the number of rows of tables. Damage to a search index alone is reported and not an
// error: the rows are whole, and an index can be built anew.
func checkSealed(path string, tables []string) (checked, error) {
	found := checked{counts: map[string]int64{}}
	err := onSealed(path, func(c *Conn) error {
		faults, err := c.faults()
		if err != nil {
			return err
		}
		for _, text := range faults {
			if !aboutIndex(text) {
				return classify(Corrupt, "integrity check: %s", text)
			}
			found.index = append(found.index, text)
		}
		if found.counts, err = c.count(tables); err != nil {
			return err
		}
		if _, err := c.Row("PRAGMA application_id", nil, &found.application); err != nil {
			return err
		}
		_, err = c.Row("PRAGMA user_version", nil, &found.version)
		return err
	})
	return found, err
}

// onSealed opens a file that nobody writes. A -wal beside it would not be read.
func onSealed(path string, do func(*Conn) error) error {
	return guard(func() error {
		db, err := sqlite3.OpenFlags(fileURI(path, "immutable=1"), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
		if err != nil {
			return fmt.Errorf("open copy: %w", err)
		}
		c := &Conn{db: db, stmts: map[string]*stmt{}, own: map[string]*stmt{}}
		defer c.close()
		if err := fts5.Register(db); err != nil {
			return fmt.Errorf("register fts5: %w", err)
		}
		return do(c)
	})
}

// faults gives what SQLite's own check complains of; nothing is a sound database.
func (c *Conn) faults() ([]string, error) {
	var faults []string
	for row, err := range c.Query("PRAGMA integrity_check") {
		if err != nil {
			return faults, fmt.Errorf("check integrity: %w", err)
		}
		if text := row.Text(0); text != "ok" {
			faults = append(faults, Fault(text))
		}
	}
	return faults, nil
}

// Fault is a complaint of SQLite's checks in one line: they put a heading over the first one, and a problem is one line.
func Fault(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "*** in database main ***\n"), "\n", "; ")
}

// aboutIndex tells a complaint about a full-text index from one about pages or rows. SQLite gives these texts no code.
func aboutIndex(text string) bool { return strings.Contains(text, "FTS5 table") }

// count gives the rows of those tables that are there.
func (c *Conn) count(tables []string) (map[string]int64, error) {
	counts := map[string]int64{}
	for _, name := range tables {
		there, err := c.Row(`SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?`, []any{name}, new(int))
		if err != nil || !there {
			if err != nil {
				return nil, fmt.Errorf("count rows: %w", err)
			}
			continue
		}
		var n int64
		if _, err := c.Row("SELECT count(*) FROM "+quote(name)+" NOT INDEXED", nil, &n); err != nil {
			return nil, fmt.Errorf("count rows of %s: %w", name, err)
		}
		counts[name] = n
	}
	return counts, nil
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func fileURI(path, query string) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query}).String()
}

// Snapshot makes one verified copy at a path where nothing is. It gets its name when it is whole, checked and synced.
// It runs beside writers, and refuses in quarantine.
func (f *File) Snapshot(ctx context.Context, to string, tables ...string) error {
	if err := f.admit(OpSnapshot); err != nil {
		return err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return &problem.Error{Kind: problem.Conflict, Thing: to, What: "exists already", Fate: "it was left as it is", Remedy: "name another file", Err: err}
	}
	partial := to + partialMark
	defer os.Remove(partial)
	_, err := f.verifiedCopy(ctx, partial, tables)
	if err == nil {
		err = os.Rename(partial, to)
	}
	if err == nil {
		err = syncDir(filepath.Dir(to))
	}
	return f.explain(err, "no copy was made")
}

const partialMark = ".partial"

// verifiedCopy copies through a reader of its own and compares: what the source holds, the copy must hold.
func (f *File) verifiedCopy(ctx context.Context, to string, tables []string) (checked, error) {
	c, err := f.connect(roleReader)
	if err != nil {
		return checked{}, err
	}
	defer f.drop(c)
	return f.verifiedCopyBy(ctx, c, to, tables)
}

func (f *File) verifiedCopyBy(ctx context.Context, c *Conn, to string, tables []string) (found checked, err error) {
	var want map[string]int64
	err = guard(func() error {
		if f.journal.Mode == "wal" {
			if err := c.beginSnapshot(); err != nil {
				return err
			}
			defer c.rollback()
			if want, err = c.count(tables); err != nil {
				return err
			}
		}
		return f.copyTo(ctx, c, to, copyRest)
	})
	if err != nil {
		f.noteDamage(err)
		return found, err
	}
	if found, err = checkSealed(to, tables); err != nil {
		return found, err
	}
	for name, n := range want {
		if found.counts[name] != n {
			return found, classify(Corrupt, "the copy has %d rows of %s, the database %d", found.counts[name], name, n)
		}
	}
	return found, nil
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
