package sqlite

import (
	"fmt"
	"strconv"
	"time"

	"gatewayd/internal/mutation"
)

// busyTimeout is how long SQLite itself waits for a lock. The rest of a caller's patience is spent outside the
// transaction, where the wait can end with the caller's context.
const busyTimeout = time.Second

// role says what a connection is for.
type role int

const (
	roleWriter  role = iota
	roleReader       // query_only
	roleWatcher      // data_version of a DELETE database; must never wait for a lock
)

// setting is one pragma, set and read back on every connection. The library's defaults differ from stock SQLite
// (synchronous=NORMAL in WAL, busy_timeout=0), so none is left to chance.
type setting struct {
	name  string
	value int64
}

const defaultCache = 2000 // KiB, SQLite's own

func (f *File) settings(r role) []setting {
	limit := f.opts.JournalSizeLimit
	if limit == 0 {
		limit = -1
	}
	timeout := busyTimeout.Milliseconds()
	if r == roleWatcher {
		timeout = 0
	}
	return []setting{
		{"busy_timeout", timeout},
		{"synchronous", f.synchronous()},
		{"foreign_keys", 1},
		{"trusted_schema", 0},
		{"recursive_triggers", 0},
		{"secure_delete", oneIf(f.opts.SecureDelete)},
		{"cell_size_check", oneIf(f.opts.CellSizeCheck)},
		{"wal_autocheckpoint", int64(f.opts.AutoCheckpoint)},
		{"journal_size_limit", limit},
		{"cache_size", -f.cache(r)},
		{"mmap_size", 0}, // a mapped main file would fault when a stranger truncates it
		{"temp_store", 0},
		{"query_only", oneIf(r != roleWriter || f.readOnly != nil)},
	}
}

// cache is how many KiB of pages a connection may keep, which it then holds until it is closed: the memory of a connection never shrinks. Readers
// are closed when they rest, the writer stays.
func (f *File) cache(r role) int64 {
	if r == roleWriter && f.opts.WriterCache > 0 {
		return f.opts.WriterCache
	}
	return defaultCache
}

// synchronous is what makes acknowledged mean that it survives a power cut: FULL in WAL, EXTRA with a rollback journal.
// There the commit is the deletion of the journal, and below EXTRA SQLite does not sync the directory after it: the
// power cut brings the journal back, and it undoes the commit.
func (f *File) synchronous() int64 {
	switch {
	case mutation.On("synchronous-normal"):
		return 1
	case f.journal.Mode == "wal":
		return 2
	}
	return 3
}

func oneIf(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

func (c *Conn) apply(settings []setting) error {
	for _, s := range settings {
		if _, err := c.pragma(s.name + "=" + strconv.FormatInt(s.value, 10)); err != nil {
			return fmt.Errorf("set pragma %s: %w", s.name, err)
		}
		got, err := c.pragma(s.name)
		if err != nil {
			return fmt.Errorf("read pragma %s back: %w", s.name, err)
		}
		if got != strconv.FormatInt(s.value, 10) {
			return fmt.Errorf("set pragma %s: wanted %d, SQLite says %q", s.name, s.value, got)
		}
	}
	return nil
}

// pragma runs one pragma and gives the first column of its first row, "" without one.
func (c *Conn) pragma(text string) (string, error) {
	s, _, err := c.db.Prepare("PRAGMA " + text)
	if err != nil {
		return "", err
	}
	defer s.Close()
	var value string
	if s.Step() {
		value = s.ColumnText(0)
	}
	return value, s.Err()
}
