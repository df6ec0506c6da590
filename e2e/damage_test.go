package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// onFile runs fn on a database beside whoever has it open.
func onFile(t *testing.T, path string, fn func(*sqlite.File) error) {
	t.Helper()
	f, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := fn(f); err != nil {
		t.Fatal(err)
	}
}

// damageIndex overwrites the root page of an index in a database that nobody has open. Its -wal is emptied first, or
// the page would be read from there.
func damageIndex(t *testing.T, path, index string) {
	t.Helper()
	var page, size int64
	onFile(t, path, func(f *sqlite.File) error {
		if _, err := f.Checkpoint(t.Context()); err != nil {
			return err
		}
		return f.Read(t.Context(), func(c *sqlite.Conn) error {
			if _, err := c.Row("SELECT rootpage FROM sqlite_schema WHERE name = ?", []any{index}, &page); err != nil {
				return err
			}
			_, err := c.Row("SELECT page_size FROM pragma_page_size", nil, &size)
			return err
		})
	})
	if err := os.Truncate(path+"-wal", 0); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte(strings.Repeat("\xff", int(size))), (page-1)*size); err != nil {
		t.Fatal(err)
	}
}

// A page of state.db goes bad under the daemon. It takes no more messages and says why, nothing is overwritten, and
// after a repair every word is there.
func TestADamagedStoreIsSaidRepairedAndWhole(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, offline))
	for i := range 3 {
		if err := d.say("s", fmt.Sprintf("before %d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	d.stop()
	db := filepath.Join(d.home, "state.db")
	damageIndex(t, db, "messages_by_session")
	d = start(t, d.home)
	d.until("the damage is met", func() bool { return d.say("s", "into the damage", nil) != nil })
	err := d.say("t", "afterwards", nil)
	if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "gatewayd repair") {
		t.Errorf("a message to a damaged store: %v", err)
	}
	if how := d.check("state.db"); !strings.HasPrefix(how, "failed") {
		t.Errorf("health says %q", how)
	}
	if out, errs, code := cli(t, d.home, "repair", "state"); code == 0 || !strings.Contains(errs, "stop") {
		t.Errorf("repair beside the daemon: %d\n%s%s", code, out, errs)
	}
	d.stop()
	if out, errs, code := cli(t, d.home, "repair", "state"); code != 0 {
		t.Fatalf("repair: %d\n%s%s", code, out, errs)
	}
	d = start(t, d.home)
	d.speak("s", "after")
	for _, text := range []string{"before 0", "before 1", "before 2"} {
		if n := d.told("s", text); n != 1 {
			t.Errorf("%q is there %d times", text, n)
		}
	}
	d.stop()
	if out, errs, code := cli(t, d.home, "sessions", "verify"); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}

// A home that a newer gatewayd has written is read and not written.
func TestADaemonOnANewerStoreReadsAndSaysSo(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, offline))
	if err := d.say("s", "of the newer one", nil); err != nil {
		t.Fatal(err)
	}
	d.stop()
	onFile(t, filepath.Join(d.home, "state.db"), func(f *sqlite.File) error {
		return f.Write(t.Context(), sqlite.Op{Label: "upgrade", Do: func(tx *sqlite.Tx) error { return tx.Script("PRAGMA user_version = 99") }})
	})
	d = start(t, d.home)
	if d.told("s", "of the newer one") != 1 {
		t.Error("it is not read")
	}
	if err := d.say("s", "of the older one", nil); err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("a message: %v", err)
	}
	var health struct{ Status, Store string }
	d.call(http.MethodGet, "/health", nil, &health)
	if health.Status != "degraded" || health.Store != "read-only" {
		t.Errorf("health: %+v", health)
	}
	d.stop()
	if out, errs, code := cli(t, d.home, "sessions", "show", "s"); code != 0 || !strings.Contains(out, "of the newer one") || strings.Contains(out, "of the older one") {
		t.Errorf("show: %d\n%s%s", code, out, errs)
	}
}
