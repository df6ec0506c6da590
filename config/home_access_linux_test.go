package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

// closed is a home that its owner shut, so that a test has no rights to it, whoever runs it.
func closed(t *testing.T, file string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(home, 0o700) })
	return home
}

func TestAHomeOfAnotherUserIsCalledThat(t *testing.T) {
	want := []string{" is not accessible for this user (uid ", "change its owner or give another --home"}
	home := closed(t, "config.yaml")
	unprivileged(func() {
		_, err := Load(Request{Flags: map[string]string{"home": home}})
		if !strings.HasPrefix(errorText(err), "home "+home) || !problem.Is(err, problem.Config) {
			t.Errorf("%v", err)
		}
		wantParts(t, errorText(err), want...)
	})
	home = closed(t, lockName)
	unprivileged(func() {
		_, _, err := HolderOf(home)
		if strings.Contains(errorText(err), "nothing was") {
			t.Errorf("%v", err)
		}
		wantParts(t, errorText(err), want...)
	})
}

func TestAFileOfAnotherUserIsNotItsHome(t *testing.T) {
	home := homeWith(t, "log: {level: info}\n")
	path := filepath.Join(home, "config.yaml")
	for dir := home; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	unprivileged(func() {
		_, err := Load(Request{Flags: map[string]string{"home": home}})
		if err == nil {
			t.Error("a file that cannot be read is passed over")
		}
		wantParts(t, errorText(err), fmt.Sprintf("%s cannot be read", path), "make it a readable text file")
	})
}

func TestAskingForTheHolderOnlyReads(t *testing.T) {
	home := t.TempDir()
	lock, err := HoldHome(home, Holder{PID: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() })
	if err := os.Chmod(filepath.Join(home, lockName), 0o444); err != nil {
		t.Fatal(err)
	}
	for dir := home; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	unprivileged(func() {
		if holder, held, err := HolderOf(home); err != nil || !held || holder.PID != 7 {
			t.Errorf("%+v %v %v", holder, held, err)
		}
	})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := HolderOf(file); err == nil || strings.Contains(err.Error(), "nothing was") {
		t.Errorf("a file in the home's place: %v", err)
	}
}

func TestAHomeThatMayNotBeWrittenIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(path, 0o555); err != nil {
			t.Fatal(err)
		}
	}
	unprivileged(func() {
		_, err := HoldHome(dir, me)
		if !problem.Is(err, problem.Config) {
			t.Errorf("hold: %v", err)
		}
		wantParts(t, errorText(err), dir, "is not writable for this user")
		_, err = HoldHome(filepath.Join(dir, "new"), me)
		wantParts(t, errorText(err), "is not writable for this user")
	})
}

// unprivileged runs f on a thread that the file system treats as an ordinary user, also when the tests run as
// root; the thread ends with it.
func unprivileged(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Geteuid() == 0 {
			runtime.LockOSThread()
			_ = unix.Setfsuid(65534)
		}
		f()
	}()
	<-done
}
