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

// asNobody runs f with another user's rights to files, which root lays down for its own thread.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if _, err := unix.SetfsuidRetUid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = unix.SetfsuidRetUid(0) }()
	}
	f()
}

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
	asNobody(t, func() {
		_, err := Load(Request{Flags: map[string]string{"home": home}})
		if err == nil || !strings.HasPrefix(err.Error(), "home "+home) || !problem.Is(err, problem.Config) {
			t.Fatalf("%v", err)
		}
		wantParts(t, err.Error(), want...)
	})
	home = closed(t, lockName)
	asNobody(t, func() {
		_, _, err := HolderOf(home)
		if err == nil || strings.Contains(err.Error(), "nothing was") {
			t.Fatalf("%v", err)
		}
		wantParts(t, err.Error(), want...)
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
	asNobody(t, func() {
		_, err := Load(Request{Flags: map[string]string{"home": home}})
		if err == nil {
			t.Fatal("a file that cannot be read is passed over")
		}
		wantParts(t, err.Error(), fmt.Sprintf("%s cannot be read", path), "make it a readable text file")
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
	asNobody(t, func() {
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
