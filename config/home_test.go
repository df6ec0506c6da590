package config

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

var me = Holder{PID: 4711, Start: 99, Boot: "b", Since: time.Now()}

func hold(t *testing.T, dir string) *HomeLock {
	t.Helper()
	h, err := HoldHome(dir, me)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestTheHomeIsMadeForItsOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "home")
	h := hold(t, dir)
	defer h.Release()
	key, created, err := h.APIKey()
	if err != nil || !created || len(key.Reveal()) < 20 {
		t.Fatalf("key of %d bytes, created %v: %v", len(key.Reveal()), created, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "api.key"): 0o600, filepath.Join(dir, lockName): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode().Perm(), err, want)
		}
	}
	again, created, err := h.APIKey()
	if err != nil || created || !again.Equal(key) {
		t.Errorf("the key must stay: created %v, %v", created, err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 2 || len(h.Warnings) != 0 {
		t.Errorf("left behind: %v; warnings %q", entries, h.Warnings)
	}
}

func TestAHeldHomeNamesItsHolder(t *testing.T) {
	dir := t.TempDir()
	if _, held, err := HolderOf(dir); held || err != nil {
		t.Fatalf("held before: %v, %v", held, err)
	}
	h := hold(t, dir)
	if err := h.Announce("127.0.0.1:1234"); err != nil {
		t.Fatal(err)
	}
	for range 3 { // asking must not take the lock
		holder, held, err := HolderOf(dir)
		if !held || err != nil || holder.PID != 4711 || holder.Start != 99 || holder.Addr != "127.0.0.1:1234" {
			t.Fatalf("holder: %+v, %v, %v", holder, held, err)
		}
	}
	_, err := HoldHome(dir, Holder{PID: 1})
	if !problem.Is(err, problem.Busy) {
		t.Fatalf("second holder: %v", err)
	}
	wantParts(t, err.Error(), dir, "pid 4711", "127.0.0.1:1234", "--home")
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	if _, held, _ := HolderOf(dir); held {
		t.Error("held after release")
	}
	defer hold(t, dir).Release()
}

func TestAStrayCloseOfTheLockFileDoesNotFreeTheHome(t *testing.T) {
	dir := t.TempDir()
	h := hold(t, dir)
	defer h.Release()
	stray, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	stray.Close()
	if _, err := HoldHome(dir, me); !problem.Is(err, problem.Busy) {
		t.Errorf("second holder after a stray close: %v", err)
	}
}

// TestMain lets the test binary play the daemon that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("GATEWAYD_TEST_HOLD"); dir != "" {
		_, err := HoldHome(dir, Holder{PID: os.Getpid()})
		os.Stdout.WriteString("held " + errorText(err) + "\n")
		select {}
	}
	os.Exit(m.Run())
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestAKilledDaemonLeavesTheHomeFree(t *testing.T) {
	dir := t.TempDir()
	daemon := exec.Command(os.Args[0], "-test.run=^$")
	daemon.Env = append(os.Environ(), "GATEWAYD_TEST_HOLD="+dir)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if strings.TrimSpace(line) != "held" {
		t.Fatalf("the other process says %q", line)
	}
	if holder, held, _ := HolderOf(dir); !held || holder.PID != daemon.Process.Pid {
		t.Errorf("holder: %+v, %v", holder, held)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	defer hold(t, dir).Release()
}

func TestAHalfWrittenRecordIsStillAHolder(t *testing.T) {
	dir := t.TempDir()
	h := hold(t, dir)
	defer h.Release()
	for _, text := range []string{"", "{", "null\x00", strings.Repeat("x", 9000)} {
		write(t, filepath.Join(dir, lockName), text)
		_, err := HoldHome(dir, me)
		if !problem.Is(err, problem.Busy) {
			t.Fatalf("%.10q: %v", text, err)
		}
		wantParts(t, err.Error(), "held by another daemon")
	}
	if err := h.Announce("x"); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(filepath.Join(dir, lockName))
	if json.Unmarshal(text, &Holder{}) != nil {
		t.Errorf("a shorter record over a longer one: %q", text)
	}
}

func TestAPlaceThatIsNoHomeIsOneClearProblem(t *testing.T) {
	base := t.TempDir()
	write(t, filepath.Join(base, "file"), "precious")
	for name, c := range map[string]struct{ dir, want string }{
		"a file":                    {filepath.Join(base, "file"), "is not a directory: a file is in its place"},
		"below a file":              {filepath.Join(base, "file", "home"), "is not a directory: a file is in its place"},
		"no such file system entry": {"/dev/null/home", "is not a directory"},
	} {
		_, err := HoldHome(c.dir, me)
		if !problem.Is(err, problem.Config) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantParts(t, err.Error(), c.dir, c.want, "--home")
	}
	if text, _ := os.ReadFile(filepath.Join(base, "file")); string(text) != "precious" {
		t.Errorf("the file was touched: %q", text)
	}
}

func TestALockThatIsNoFileIsRefused(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	write(t, precious, "text")
	defer func() {
		if text, _ := os.ReadFile(precious); string(text) != "text" {
			t.Errorf("a link led the record into another file: %q", text)
		}
	}()
	for name, make := range map[string]func(string) error{
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"FIFO":      func(p string) error { return unix.Mkfifo(p, 0o600) },
		"link":      func(p string) error { return os.Symlink(precious, p) },
	} {
		dir := t.TempDir()
		if err := make(filepath.Join(dir, lockName)); err != nil {
			t.Fatal(err)
		}
		if _, err := HoldHome(dir, me); !problem.Is(err, problem.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAReadOnlyOrFullFileSystemIsNamed(t *testing.T) {
	for errno, want := range map[error]struct {
		kind problem.Kind
		text string
	}{
		unix.EROFS:  {problem.Config, "is on a read-only file system"},
		unix.ENOSPC: {problem.Full, "has no space left"},
		unix.EPERM:  {problem.Config, "is not writable"},
		unix.EIO:    {problem.Config, "cannot be used"},
	} {
		err := homeProblem("/home/a/.gatewayd", &os.PathError{Op: "mkdir", Path: "/home/a/.gatewayd", Err: errno})
		if !problem.Is(err, want.kind) {
			t.Errorf("%v: %v", errno, err)
		}
		wantParts(t, err.Error(), "/home/a/.gatewayd", want.text, "nothing was opened")
	}
}

func TestAnUnusableKeyIsLeftAlone(t *testing.T) {
	for _, text := range []string{"", "\n", "two words\n"} {
		dir := t.TempDir()
		h := hold(t, dir)
		write(t, filepath.Join(dir, keyName), text)
		_, _, err := h.APIKey()
		if !problem.Is(err, problem.Config) {
			t.Errorf("%q: %v", text, err)
		}
		if now, _ := os.ReadFile(filepath.Join(dir, keyName)); string(now) != text {
			t.Errorf("%q became %q", text, now)
		}
		h.Release()
	}
	if _, err := ReadAPIKey(t.TempDir()); !problem.Is(err, problem.NotFound) {
		t.Errorf("no key: %v", err)
	}
}

func TestAnOpenHomeIsWarnedAbout(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, keyName), "key\n")
	for path, mode := range map[string]os.FileMode{dir: 0o755, filepath.Join(dir, keyName): 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	h := hold(t, dir)
	defer h.Release()
	if _, _, err := h.APIKey(); err != nil {
		t.Fatal(err)
	}
	wantParts(t, strings.Join(h.Warnings, "\n"), "chmod 700 "+dir, "chmod 600 "+filepath.Join(dir, keyName))
}

func TestAHolderInAnotherContainerIsNamedByIt(t *testing.T) {
	here, err := Self()
	if err != nil || here.PID != os.Getpid() || here.Host == "" {
		t.Fatalf("%+v %v", here, err)
	}
	wantParts(t, here.String(), fmt.Sprintf("with pid %d", os.Getpid()))
	there := here
	there.PID, there.Host, there.PIDNS, there.Addr = 1, "4f1c2", "pid:[1]", "0.0.0.0:8642"
	wantParts(t, there.String(), "another container, 4f1c2", "pid 1 there", "0.0.0.0:8642")
}
