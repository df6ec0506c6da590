package homesocket

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const name = "x.sock"

// listen serves one home and answers every connection that is heard.
func listen(t *testing.T, home string) (strangers chan Peer) {
	t.Helper()
	l, err := Listen(t.Context(), home, name)
	if err != nil {
		t.Fatal(err)
	}
	strangers = make(chan Peer, 10)
	owned := Own(l, func(p Peer, _ error) { strangers <- p })
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := owned.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "heard")
			_ = conn.Close()
		}
	}()
	return strangers
}

func heard(home string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := Dial(ctx, home, name)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	text, err := io.ReadAll(conn)
	return string(text), err
}

func TestAHomesSocketIsPrivateAndReplacesALeftOne(t *testing.T) {
	for _, home := range []string{t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long/", 40))} {
		if err := os.MkdirAll(home, 0o700); err != nil {
			t.Fatal(err)
		}
		left, err := Listen(t.Context(), home, name)
		if err != nil {
			t.Fatal(err)
		}
		_ = left.Close() // the name stays, as after kill -9
		listen(t, home)
		if text, err := heard(home); err != nil || text != "heard" {
			t.Errorf("%q %v", text, err)
		}
		if info, err := os.Stat(filepath.Join(home, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	}
}

func TestWhatIsNoSocketIsNotReplaced(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, name)
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), home, name); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Error(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("%q", text)
	}
}

func TestOnlyTheUserAndRootAreHeard(t *testing.T) {
	for _, c := range []struct {
		peer, self int
		want       bool
	}{{1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {1000, 0, false}, {65534, 1000, false}} {
		if got := (Peer{UID: c.peer}).may(c.self); got != c.want {
			t.Errorf("user %d at the socket of %d: %v", c.peer, c.self, got)
		}
	}
}

// The real thing: another user connects to a socket that the file's mode would let anybody use.
func TestAnotherUserIsNotHeard(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can play another user")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "homesocket") // the test's own directory is closed to others further up
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	strangers := listen(t, home)
	for path, mode := range map[string]os.FileMode{home: 0o755, filepath.Join(home, name): 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(home, "other")
	text, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(program, "-test.run", "^TestPlayAnotherUser$")
	other.Env = []string{"PLAY_HOME=" + home}
	other.Dir = home
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := other.CombinedOutput()
	if err != nil {
		t.Skipf("another user cannot be played here: %v %s", err, out)
	}
	if !strings.Contains(string(out), "said \"\"") {
		t.Errorf("%s", out)
	}
	select {
	case p := <-strangers:
		if p.UID != 65534 || p.PID != other.ProcessState.Pid() {
			t.Errorf("%+v", p)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody was told")
	}
}

func TestPlayAnotherUser(t *testing.T) {
	home := os.Getenv("PLAY_HOME")
	if home == "" {
		t.Skip("only as a part of the test above")
	}
	text, err := heard(home)
	t.Logf("said %q: %v", text, err)
	os.Stdout.WriteString("said \"" + text + "\"\n")
}

func TestAPeerIsBelowWhoStartedIt(t *testing.T) {
	home := t.TempDir()
	l, err := Listen(t.Context(), home, name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := Dial(t.Context(), home, name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	there, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	peer, err := PeerOf(there)
	if err != nil || peer.PID != os.Getpid() || peer.UID != os.Getuid() {
		t.Fatalf("%+v %v", peer, err)
	}
	if !peer.Below(os.Getppid()) && os.Getppid() > 1 || peer.Below(os.Getpid()) {
		t.Error("who started whom is not known")
	}
	var _ net.Conn = there
}
