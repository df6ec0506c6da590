package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

// asNobody runs fn on a thread whose file accesses are those of an unprivileged user.
func asNobody(t *testing.T, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		fn()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		unix.SetfsgidRetGid(65534)
		unix.SetfsuidRetUid(65534)
		fn()
	}()
	<-done
}

func TestWhatMayNotBeWrittenIsRefusedAndNamed(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(t *testing.T, path string)
	}{
		{"a file without permission to write", func(t *testing.T, p string) { chmod(t, p, 0o444) }},
		{"a file without permission to read", func(t *testing.T, p string) { chmod(t, p, 0) }},
		{"a -wal of somebody else", func(t *testing.T, p string) { chmod(t, p, 0o666); chmod(t, p+"-shm", 0o666); chmod(t, p+"-wal", 0o600) }},
		{"a -shm of somebody else", func(t *testing.T, p string) { chmod(t, p, 0o666); chmod(t, p+"-wal", 0o666); chmod(t, p+"-shm", 0o600) }},
		{"a directory without permission to write", func(t *testing.T, p string) {
			chmod(t, p, 0o666)
			for _, s := range []string{"-wal", "-shm"} {
				if err := os.Remove(p + s); err != nil {
					t.Fatal(err)
				}
			}
			chmod(t, filepath.Dir(p), 0o555)
		}},
		{"a directory without permission to enter", func(t *testing.T, p string) { chmod(t, filepath.Dir(p), 0) }},
		{"a new file in such a directory", func(t *testing.T, p string) {
			for _, s := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(p + s); err != nil {
					t.Fatal(err)
				}
			}
			chmod(t, filepath.Dir(p), 0o555)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			top := t.TempDir()
			chmod(t, filepath.Dir(top), 0o755)
			o := testOptions(t)
			o.Path = filepath.Join(top, "home", "state.db")
			mustOpen(t, o).Close()
			chmod(t, filepath.Dir(o.Path), 0o755)
			tc.make(t, o.Path)
			t.Cleanup(func() { os.Chmod(filepath.Dir(o.Path), 0o755) })
			asNobody(t, func() {
				f, err := Open(context.Background(), o)
				if err == nil {
					f.Close()
					t.Error("it was opened")
					return
				}
				if ClassOf(err) != ReadOnly || !problem.Is(err, problem.Denied) {
					t.Errorf("class %s: %v", ClassOf(err), err)
				}
				if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "state.db") || !strings.Contains(text, "permission") {
					t.Errorf("text: %s", text)
				}
			})
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
