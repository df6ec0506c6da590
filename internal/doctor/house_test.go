package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/lastrun"
	"gatewayd/internal/peer"
	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
	"gatewayd/sessiondb"
	"gatewayd/systemd"
)

// python holds a database open as a Hermes worker does: in the middle of its work, with rows in the -wal that are not in the main file.
func python(t *testing.T, path string) (closed func()) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: a foreign holder is NOT tested")
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-c", `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("PRAGMA wal_autocheckpoint=0")
c.execute("CREATE TABLE IF NOT EXISTS peers(x)")
c.execute("INSERT INTO peers VALUES (1)")
print("open", flush=True)
sys.stdin.readline()
print(c.execute("SELECT count(*) FROM peers").fetchone()[0], flush=True)
`, path)
	p := peer.Start(t, cmd)
	p.Want("open")
	return func() {
		p.Say("")
		if rows := p.Next(); rows == "0" {
			t.Error("the peer lost its row")
		}
		need(t, p.End())
	}
}

func need(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sides are the inode, size and content's beginning of the three files.
func sides(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	for _, side := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + side)
		if errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(&all, "%s none\n", side)
			continue
		}
		need(t, err)
		fmt.Fprintf(&all, "%s %d %d\n", side, info.Sys().(*syscall.Stat_t).Ino, info.Size())
	}
	raw, err := os.ReadFile(path)
	need(t, err)
	fmt.Fprintf(&all, "%x", raw[:min(len(raw), 100)])
	return all.String()
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	need(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func board(t *testing.T) (Database, string) {
	t.Helper()
	home := t.TempDir()
	need(t, os.Chmod(home, 0o700))
	path := filepath.Join(home, "kanban.db")
	b, err := kanban.Open(t.Context(), kanban.Options{Path: path, Create: true, Log: slog.New(slog.DiscardHandler)})
	need(t, err)
	need(t, b.Close())
	return Database{Label: "board default", Path: path, Board: true}, home
}

func store(t *testing.T) (Database, string) {
	t.Helper()
	home := t.TempDir()
	path := filepath.Join(home, "state.db")
	s, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: path, Log: slog.New(slog.DiscardHandler)})
	need(t, err)
	need(t, s.Close())
	return Database{Label: "state.db", Path: path}, home
}

func houseOf(home string, dbs ...Database) *House {
	return &House{
		Home: home, Broken: errors.New("not what is looked at"), Databases: dbs, Backups: filepath.Join(home, "backups"), Now: time.Now(),
		Daemon: func(context.Context) (Running, error) { return Running{}, errors.New("none runs") },
	}
}

func the(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s: %+v", name, checks)
	return Check{}
}

// A program that opens and closes a database beside its owner can take the log away from it. The doctor leaves all three files as they are, with
// the owner at work and after it, and with --fix too.
func TestTheDoctorHarmsNoDatabaseThatSomebodyHasOpen(t *testing.T) {
	for _, make := range []func(*testing.T) (Database, string){board, store} {
		db, home := make(t)
		closed := python(t, db.Path)
		before, there := sides(t, db.Path), names(t, home)
		checks := Examine(t.Context(), houseOf(home, db))
		c := the(t, checks, "holders")
		if c.State != OK || !strings.Contains(c.Says, "1 process has it open") || !strings.Contains(c.Says, "python3") {
			t.Errorf("%+v", c)
		}
		if c := the(t, checks, "pages"); c.State != OK {
			t.Errorf("%+v", c)
		}
		freed, err := sqlite.CheckpointAlone(t.Context(), db.Path, db.Label)
		if err == nil || !strings.Contains(err.Error(), "python3") {
			t.Errorf("%d bytes were checkpointed beside a holder: %v", freed, err)
		}
		if after := sides(t, db.Path); after != before {
			t.Errorf("%s: before\n%s\nafter\n%s", db.Label, before, after)
		}
		if now := names(t, home); !slices.Equal(slices.DeleteFunc(now, func(n string) bool { return strings.HasSuffix(n, ".repair.lock") }), there) {
			t.Errorf("%s: there were %v, there are %v", db.Label, there, now)
		}
		closed()
	}
}

// A log that nobody empties is emptied where nobody has the file open.
func TestALargeLogIsWrittenIntoADatabaseThatNobodyHasOpen(t *testing.T) {
	db, home := board(t)
	v := &visit{Database: db, house: houseOf(home, db), glance: sqlite.Glance{WAL: largeWAL + 1}}
	checks := lookWAL(t.Context(), v)
	Mend(t.Context(), checks)
	if c := checks[0]; c.State != OK || c.Fixed == "" || c.Remedy != "" {
		t.Errorf("%+v", c)
	}
	if info, err := os.Stat(db.Path + "-wal"); err == nil && info.Size() > 0 {
		t.Errorf("%d bytes are left in the log", info.Size())
	}
	checks = Examine(t.Context(), houseOf(home, db))
	for _, name := range []string{"pages", "write", "rows"} {
		if c := the(t, checks, name); c.State != OK {
			t.Errorf("%+v", c)
		}
	}
}

// Damage to a search index costs no row, and is told apart from damage that does.
func TestDamageOfAnIndexIsNoDamageOfRows(t *testing.T) {
	db, home := store(t)
	c, err := sqlite.OpenBare(db.Path)
	need(t, err)
	need(t, c.Exec(`INSERT INTO sessions(id, opened_at, last_active) VALUES('s', 1, 1);
INSERT INTO messages(origin_id, uid, session_id, role, content, created_at) VALUES(1, 'u', 's', 'user', 'words of a person', 1);
UPDATE meta SET v = (SELECT max(id) FROM messages) WHERE k = 'fts_mark'`))
	need(t, c.Close())
	checks := Examine(t.Context(), houseOf(home, db))
	if c := the(t, checks, "pages"); c.State != OK {
		t.Errorf("%+v", c)
	}
	if c := the(t, checks, "indexes"); c.State != Warn || !strings.Contains(c.Says, "messages_fts") {
		t.Errorf("%+v", c)
	}
	raw, err := os.ReadFile(db.Path)
	need(t, err)
	wal, _ := os.ReadFile(db.Path + "-wal")
	if len(raw) < 3*4096 || len(wal) > 0 { // the pages are in the main file only after a checkpoint
		_, err := sqlite.CheckpointAlone(t.Context(), db.Path, db.Label)
		need(t, err)
		raw, err = os.ReadFile(db.Path)
		need(t, err)
	}
	for i := 4096; i < 3*4096; i++ {
		raw[i] = 0x5a
	}
	need(t, os.WriteFile(db.Path, raw, 0o600))
	if c := the(t, Examine(t.Context(), houseOf(home, db)), "pages"); c.State != Fail || c.Remedy == "" {
		t.Errorf("%+v", c)
	}
}

// A pid that another process has by now is not the daemon's.
func TestARecycledPidIsNotTheDaemons(t *testing.T) {
	home := t.TempDir()
	self, err := procfs.Self()
	need(t, err)
	lock, err := config.HoldHome(home, config.Holder{PID: self.PID, Start: self.Start + 1, Boot: self.Boot, Since: time.Now()})
	need(t, err)
	c := lookLock(t.Context(), houseOf(home))[0]
	if c.State != Fail || !strings.Contains(c.Says, "another process now") || c.Remedy == "" {
		t.Errorf("held by nobody that it names: %+v", c)
	}
	need(t, lock.Release())
	if c := lookLock(t.Context(), houseOf(home))[0]; c.State != OK {
		t.Errorf("free: %+v", c)
	}
	if c := freeLock(lastrun.Run{PID: self.PID, Start: self.Start + 1, Boot: self.Boot}); c.State != OK || !strings.Contains(c.Says, "another process now") {
		t.Errorf("the last run's pid: %+v", c)
	}
	if c := freeLock(lastrun.Run{PID: self.PID, Start: self.Start, Boot: self.Boot}); c.State != Warn {
		t.Errorf("the last run lives: %+v", c)
	}
}

// Who is on the address is named.
func TestAPortThatIsTakenIsToldWithItsHolder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	h := houseOf(t.TempDir())
	h.Loaded.API.Addr = l.Addr().String()
	if c := lookPort(t.Context(), h)[0]; c.State != Fail || !strings.Contains(c.Says, fmt.Sprintf("process %d ", os.Getpid())) {
		t.Errorf("%+v", c)
	}
	need(t, l.Close())
	if c := lookPort(t.Context(), h)[0]; c.State != OK {
		t.Errorf("%+v", c)
	}
}

// Keys of the home are closed by --fix; a key file elsewhere is somebody's own.
func TestOpenKeysAreToldAndClosed(t *testing.T) {
	home, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "model.key")
	key := filepath.Join(home, "api.key")
	need(t, os.WriteFile(key, []byte("k"), 0o644))
	need(t, os.WriteFile(elsewhere, []byte("k"), 0o644))
	need(t, os.Chmod(home, 0o755))
	h := houseOf(home)
	h.Loaded.Model.APIKeyFile = elsewhere
	checks := lookModes(t.Context(), h)
	if len(checks) != 3 {
		t.Fatalf("%+v", checks)
	}
	Mend(t.Context(), checks)
	for path, want := range map[string]os.FileMode{home: 0o700, key: 0o600, elsewhere: 0o644} {
		info, err := os.Stat(path)
		need(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s: %04o", path, info.Mode().Perm())
		}
	}
}

// The clock went back: rows of tomorrow are there.
func TestAClockThatWentBackIsToldByTheNewestRow(t *testing.T) {
	db, home := store(t)
	c, err := sqlite.OpenBare(db.Path)
	need(t, err)
	need(t, c.Exec(fmt.Sprintf(`INSERT INTO sessions(id, opened_at, last_active) VALUES('s', 1, 1);
INSERT INTO messages(origin_id, uid, session_id, role, content, created_at) VALUES(1, 'u', 's', 'user', 'of tomorrow', %d)`, time.Now().Add(time.Hour).UnixMicro())))
	need(t, c.Close())
	if c := the(t, Examine(t.Context(), houseOf(home, db)), "newest row"); c.State != Warn || !strings.Contains(c.Says, "clock went back") {
		t.Errorf("%+v", c)
	}
	h := houseOf(home)
	h.Now = time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)
	if c := lookClock(t.Context(), h)[0]; c.State != Fail {
		t.Errorf("%+v", c)
	}
}

// What a person changed since, or an upgrade wants otherwise, is named by its line; a stop that systemd cuts short fails.
func TestAUnitThatIsNotAsItWouldBeWrittenIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatewayd.service")
	exe, err := os.Executable()
	need(t, err)
	h := houseOf(t.TempDir())
	unit := unitText(exe, 100*time.Second)
	h.Units, h.Stop = []Unit{{Path: path, Wanted: []string{unit}}}, 100*time.Second
	for _, c := range []struct {
		text       string
		unit, stop State
	}{
		{"", Skipped, Skipped},
		{unit, OK, OK},
		{strings.Replace(unit, "WatchdogSec=60", "WatchdogSec=6", 1), Warn, OK},
		{strings.Replace(unit, "TimeoutStopSec=130", "TimeoutStopSec=20", 1), Warn, Fail},
		{strings.Replace(unit, exe, "/gone/gatewayd", 1), Fail, OK},
		{"[Service]\nExecStart=/bin/true\n", Warn, Fail},
	} {
		if c.text != "" {
			need(t, os.WriteFile(path, []byte(c.text), 0o644))
		}
		is, stop := lookUnit(t.Context(), h)[0], lookStop(t.Context(), h)[0]
		if is.State != c.unit || stop.State != c.stop {
			t.Errorf("%+v, %+v of\n%s", is, stop, c.text)
		}
	}
}

// An old SQLite beside the daemon is told, and one that does not answer is not taken for a good one.
func TestAnOldSQLiteOnThePathIsTold(t *testing.T) {
	dir := t.TempDir()
	need(t, os.WriteFile(filepath.Join(dir, "sqlite3"), []byte("#!/bin/sh\n"), 0o755))
	h := houseOf(t.TempDir())
	h.Loaded.Environ = config.Environ{"PATH=" + dir}
	for said, want := range map[string]State{
		"3.40.1 2022-12-28 14:03:47 df5c253c\n": Warn, "3.51.3 2026-01-01\n": OK, "3.50.7 x\n": OK, "": Warn, "nonsense": Warn,
	} {
		h.Run = func(context.Context, ...string) (string, error) { return said, nil }
		if c := lookSQLite(t.Context(), h); len(c) != 1 || c[0].State != want {
			t.Errorf("%q: %+v", said, c)
		}
	}
	h.Run = func(context.Context, ...string) (string, error) { return "", errors.New("it hangs") }
	if c := lookSQLite(t.Context(), h); c[0].State != Unknown {
		t.Errorf("%+v", c)
	}
}

// A backup that is overdue is told, and a home of today has time.
func TestABackupIsMissedWhenItIsDue(t *testing.T) {
	db, home := board(t)
	h := houseOf(home, db)
	h.Loaded.Backup.Every = 24 * time.Hour
	if c := lookBackups(t.Context(), h)[0]; c.State != OK {
		t.Errorf("a new home: %+v", c)
	}
	h.Now = time.Now().Add(48 * time.Hour)
	if c := lookBackups(t.Context(), h)[0]; c.State != Warn || !strings.Contains(c.Says, "no backup") {
		t.Errorf("without one: %+v", c)
	}
	_, err := sqlite.BackupFile(t.Context(), db.Path, db.Label, sqlite.BackupOptions{Dir: h.Backups})
	need(t, err)
	if c := lookBackups(t.Context(), h)[0]; c.State != Warn || !strings.Contains(c.Says, "is of") {
		t.Errorf("with an old one: %+v", c)
	}
	h.Now = time.Now()
	if c := lookBackups(t.Context(), h)[0]; c.State != OK {
		t.Errorf("with one: %+v", c)
	}
}

func unitText(exe string, stop time.Duration) string {
	return systemd.Unit{Exe: exe, Stop: stop}.Text()
}
