package sqlite

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// Every connection kind in both journals carries every setting, FTS5, and never checkpoints when it closes.
func TestEveryConnectionIsSetUpAndReadBack(t *testing.T) {
	want := map[string]string{
		"foreign_keys": "1", "trusted_schema": "0", "secure_delete": "1", "cell_size_check": "1",
		"wal_autocheckpoint": "100", "journal_size_limit": "8388608", "mmap_size": "0", "temp_store": "0",
		"recursive_triggers": "0",
	}
	for _, mode := range []string{"wal", "delete"} {
		var mu sync.Mutex
		seen := map[role]int{}
		want["synchronous"] = map[string]string{"wal": "2", "delete": "3"}[mode]
		o := testOptions(t)
		o.Journal.Mode, o.AutoCheckpoint, o.SecureDelete, o.CellSizeCheck, o.JournalSizeLimit = mode, 100, true, true, 8<<20
		o.WriterCache = 256
		o.seams.opened = func(c *Conn, r role) {
			mu.Lock()
			defer mu.Unlock()
			seen[r]++
			for name, value := range want {
				if got, err := c.pragma(name); err != nil || got != value {
					t.Errorf("%s, role %d: %s = %q (%v), want %s", mode, r, name, got, err, value)
				}
			}
			busy, queryOnly, cache := strconv.FormatInt(busyTimeout.Milliseconds(), 10), "0", "-256"
			if r == roleWatcher {
				busy = "0"
			}
			if r != roleWriter {
				queryOnly, cache = "1", "-2000"
			}
			for name, value := range map[string]string{"busy_timeout": busy, "query_only": queryOnly, "cache_size": cache, "journal_mode": mode} {
				if got, _ := c.pragma(name); got != value {
					t.Errorf("%s, role %d: %s = %q, want %s", mode, r, name, got, value)
				}
			}
			if on, err := c.db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE); err != nil || !on {
				t.Errorf("%s, role %d: checkpoint at close is not forbidden: %v", mode, r, err)
			}
			if found, err := c.Row("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'", nil, new(int)); err != nil || !found {
				t.Errorf("%s, role %d: no fts5: %v", mode, r, err)
			}
		}
		f := mustOpen(t, o)
		mustWrite(t, f, insert("a"))
		count(t, f)
		if _, err := f.Stamp(); err != nil {
			t.Fatal(err)
		}
		wantSeen := map[string]map[role]int{"wal": {roleWriter: 1, roleReader: 1}, "delete": {roleWriter: 1, roleWatcher: 1}}[mode]
		for r, n := range wantSeen {
			if seen[r] != n {
				t.Errorf("%s: %d connections of role %d, want %d", mode, seen[r], r, n)
			}
		}
	}
}

func TestAReaderCannotWrite(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	err := f.Read(context.Background(), func(c *Conn) error {
		_, err := (&Tx{c}).Exec("INSERT INTO rows (uid) VALUES ('x')")
		return err
	})
	if ClassOf(err) != ReadOnly {
		t.Errorf("got %v", err)
	}
}

func TestASettingThatDoesNotTakeIsAnError(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	err := f.Read(context.Background(), func(c *Conn) error { return c.apply([]setting{{"page_count", 12345}}) })
	if err == nil {
		t.Error("a pragma that reads back something else was believed")
	}
}
