package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const onFUSE = "served by a program"

// mountFUSE gives a directory that a program serves from another one, or skips aloud.
func mountFUSE(t *testing.T, behind string) string {
	t.Helper()
	for _, needed := range []string{"bindfs", "/dev/fuse"} {
		if _, err := os.Stat(needed); err != nil && filepath.IsAbs(needed) {
			t.Skip("SKIPPED: nothing can be mounted through FUSE here, so a real FUSE mount was NOT tried: ", err)
		} else if _, err := exec.LookPath(needed); err != nil && !filepath.IsAbs(needed) {
			t.Skip("SKIPPED: there is no bindfs here, so a real FUSE mount was NOT tried: ", err)
		}
	}
	mount := t.TempDir()
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	if out, err := exec.Command("bindfs", behind, mount).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: bindfs does not run here, so a real FUSE mount was NOT tried: %v: %s", err, out)
	}
	return mount
}

func homeBelow(t *testing.T, dir string) string {
	t.Helper()
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("model: {provider: offline}\nagent: {shutdown_grace: 1s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// journalOf reads how a database is kept, from its header: 1 rollback, 2 WAL.
func journalOf(t *testing.T, home string) byte {
	t.Helper()
	head := make([]byte, 100)
	file, err := os.Open(filepath.Join(home, "state.db"))
	if err == nil {
		_, err = file.ReadAt(head, 0)
		_ = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return head[18]
}

func (d *daemon) kill() {
	d.t.Helper()
	_ = d.child.Signal(syscall.SIGKILL)
	_, _ = d.end()
}

func TestAHomeOnARealFUSEMountIsToldAndKeepsItsRows(t *testing.T) {
	t.Parallel()
	home := homeBelow(t, mountFUSE(t, t.TempDir()))
	d := start(t, home)
	if n := len(d.turn("hello")); n != 2 {
		t.Errorf("%d rows after a turn", n)
	}
	if journal := journalOf(t, home); journal != 1 {
		t.Errorf("a new database is kept in mode %d there", journal)
	}
	if reason := d.check("volume"); !strings.Contains(reason, onFUSE) {
		t.Errorf("/health/detailed says of the volume %q", reason)
	}
	out, _, _ := cli(t, home, "doctor", "--all")
	for _, words := range []string{"lies on fuse, mounted at " + filepath.Dir(home), onFUSE, "remedy: use a native volume", "journal mode delete, synchronous EXTRA, on fuse"} {
		if !strings.Contains(out, words) {
			t.Errorf("doctor does not say %q:\n%s", words, out)
		}
	}
	d.kill()
	if log := d.log.String(); !strings.Contains(log, "database is kept in rollback mode") || !strings.Contains(log, "use a native volume") {
		t.Errorf("the log does not say it:\n%s", log)
	}
	d = start(t, home)
	if n := len(d.turn("again")); n != 4 {
		t.Errorf("%d rows after kill -9", n)
	}
	d.stop()
}

// What was made on a disk stays as it is when it is seen through FUSE: told as an error, and every row is there, before and after.
func TestADatabaseInWALOnARealFUSEMountIsLeftSoAndTold(t *testing.T) {
	t.Parallel()
	behind := t.TempDir()
	mount := mountFUSE(t, behind)
	native := homeBelow(t, behind)
	d := start(t, native)
	d.turn("on a disk")
	d.stop()

	home := filepath.Join(mount, "home")
	d = start(t, home)
	if n := len(d.turn("through a program")); n != 4 {
		t.Errorf("%d rows", n)
	}
	if out, _, _ := cli(t, home, "doctor"); !strings.Contains(out, "journal mode wal on fuse") || !strings.Contains(out, "set-journal-mode delete state") {
		t.Errorf("doctor does not say it:\n%s", out)
	}
	d.stop()
	if log := d.log.String(); journalOf(t, home) != 2 || !strings.Contains(log, "database in WAL lies on a file system that does not carry it") {
		t.Errorf("mode %d; the log does not say it:\n%s", journalOf(t, home), log)
	}
	d = start(t, native)
	if n := len(d.turn("on a disk again")); n != 6 {
		t.Errorf("%d rows", n)
	}
	d.stop()
}

// FUSE keeps locks to itself: who comes by the mount and who comes by the directory behind it do not meet. They are told apart all the same.
func TestTheHomeBehindARealFUSEMountHasOneDaemon(t *testing.T) {
	t.Parallel()
	behind := t.TempDir()
	mounted := filepath.Join(mountFUSE(t, behind), "home")
	native := homeBelow(t, behind)
	for _, c := range []struct{ holds, comes string }{{native, mounted}, {mounted, native}} {
		d := start(t, c.holds)
		before := listing(t, native)
		said, code := refusedStart(t, c.comes)
		if code != 78 || strings.Count(strings.TrimSpace(said), "\n") > 0 {
			t.Errorf("exit code %d, want 78 and one line: %s", code, said)
		}
		for _, words := range []string{fmt.Sprint("pid ", d.child.PID()), "calls it " + c.holds, "nothing was touched"} {
			if !strings.Contains(said, words) {
				t.Errorf("does not say %q: %s", words, said)
			}
		}
		if after := listing(t, native); after != before {
			t.Errorf("something was written:\n%s\nbefore:\n%s", after, before)
		}
		d.kill() // what it leaves in the lock blocks nobody
		start(t, c.comes).stop()
	}
}

// refusedStart starts a daemon that ought to refuse its home. One that does not is stopped.
func refusedStart(t *testing.T, home string) (said string, code int) {
	t.Helper()
	d := launch(t, home)
	late := time.AfterFunc(patience/3, func() { _ = d.child.Signal(syscall.SIGTERM) })
	defer late.Stop()
	code, _ = d.end()
	return d.log.String(), code
}

// listing is each file of a home but those that its daemon writes by itself, with size and time.
func listing(t *testing.T, home string) (text string) {
	t.Helper()
	entries, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && !strings.HasPrefix(entry.Name(), "state.db") && !entry.IsDir() {
			text += fmt.Sprintln(entry.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return text
}
