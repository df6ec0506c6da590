package kanban

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

func TestDispatchLockHasOneHolder(t *testing.T) {
	db := filepath.Join(t.TempDir(), "kanban.db")
	lock, err := TryDispatchLock(db)
	if err != nil {
		t.Fatal(err)
	}
	_, err = TryDispatchLock(db)
	if !errors.Is(err, ErrHeld) || !problem.Is(err, problem.Busy) || !strings.Contains(err.Error(), db) {
		t.Errorf("a second holder: %v", err)
	}
	holder, ok := LockHolder(DispatchLockPath(db))
	if !ok || holder.PID != os.Getpid() || holder.Host != hostname() || holder.Since == 0 {
		t.Errorf("holder: %+v, %v", holder, ok)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	other, err := TryDispatchLock(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.TryLock(); !errors.Is(err, ErrHeld) {
		t.Errorf("the first one again: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lock.TryLock(); err != nil {
		t.Errorf("after the other one: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(DispatchLockPath(db)); err != nil {
		t.Error("the lock file was removed")
	}
}

// A Python process takes flock(2). This is the same call on a descriptor of its own.
func TestLockExcludesAPlainFlock(t *testing.T) {
	db := filepath.Join(t.TempDir(), "kanban.db")
	f, err := os.OpenFile(DispatchLockPath(db), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if _, err := TryDispatchLock(db); !errors.Is(err, ErrHeld) {
		t.Errorf("beside a plain flock: %v", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	lock, err := TryDispatchLock(db)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("a plain flock beside ours: %v", err)
	}
}

func TestUnlinkedLockFileIsNoticed(t *testing.T) {
	db := filepath.Join(t.TempDir(), "kanban.db")
	lock, err := OpenLock(DispatchLockPath(db))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := os.Remove(DispatchLockPath(db)); err != nil {
		t.Fatal(err)
	}
	if err := lock.TryLock(); err != nil {
		t.Fatal(err)
	}
	if _, err := TryDispatchLock(db); !errors.Is(err, ErrHeld) {
		t.Errorf("two holders after somebody unlinked the file: %v", err)
	}
}

func TestHolderIsWrittenOncePerProcess(t *testing.T) {
	r := newRoot(t)
	lock, err := r.TrySingletonLock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	before := strings.Replace(fileBytes(t, r.SingletonLockPath()), `"since":`, `"since":1`, 1) // another time than now
	if err := os.WriteFile(r.SingletonLockPath(), []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := lock.TryLock(); err != nil {
			t.Fatal(err)
		}
	}
	if after := fileBytes(t, r.SingletonLockPath()); after != before || strings.Count(after, "\n") != 1 {
		t.Errorf("lock file: %q, then %q", before, after)
	}
	if err := os.WriteFile(r.SingletonLockPath(), []byte("not ours"), 0o644); err != nil {
		t.Fatal(err)
	}
	if h, ok := LockHolder(r.SingletonLockPath()); ok {
		t.Errorf("a holder was read from foreign words: %+v", h)
	}
}
