package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gatewayd/internal/fakellm"
	"gatewayd/reaper"
)

// oneLine checks that a verb failed with this code and said why in one line.
func oneLine(t *testing.T, errs string, code, want int, says ...string) {
	t.Helper()
	if code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	for _, words := range says {
		if !strings.Contains(errs, words) {
			t.Errorf("does not say %q", words)
		}
	}
	if lines := strings.Count(strings.TrimSpace(errs), "\n") + 1; lines != 1 {
		t.Errorf("%d lines instead of one", lines)
	}
	if t.Failed() {
		t.Logf("it said:\n%s", errs)
	}
}

// A supervisor that signals the process and its group asks once: the stop is clean and its code is 0.
func TestTwoSignalsAtOnceAreOneRequest(t *testing.T) {
	d := start(t, newHome(t, "model: {provider: offline}\n"))
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCONT} { // both are there when it wakes up
		if err := d.child.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if code, signal := d.end(); code != 0 || signal != 0 {
		t.Errorf("code %d, signal %d", code, signal)
	}
	if !strings.Contains(d.log.String(), `"stopped"`) {
		t.Error("the stop was cut short")
	}
}

// The daemon of a home is down although the daemon of another home answers on its port.
func TestAnotherDaemonOnThePortIsNotOurs(t *testing.T) {
	other := start(t, newHome(t, "model: {provider: offline}\n"))
	addr := strings.TrimPrefix(other.base, "http://")
	home := newHome(t, fmt.Sprintf("api: {addr: %q}\n", addr))
	if _, errs, code := cli(t, home, "init"); code != 1 || !strings.Contains(errs, "config.yaml exists already") {
		t.Fatalf("init: code %d: %s", code, errs)
	}
	if err := os.WriteFile(filepath.Join(home, "api.key"), []byte("a-key-of-this-home-and-no-other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range [][]string{{"status"}, {"chat", "hello"}} {
		_, errs, code := cli(t, home, verb...)
		oneLine(t, errs, code, 69, "daemon of home "+home+" is not running", addr+" is another one")
	}
	other.stop()
}

// Whoever answers there is no gatewayd: that is said, not decoded.
func TestAStrangerOnThePort(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no HTTP": "220 mail.example ESMTP\r\n", "no answer": "", "no JSON": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			stranger, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer stranger.Close()
			go func() {
				for {
					conn, err := stranger.Accept()
					if err != nil {
						return
					}
					_, _ = conn.Read(make([]byte, 4096))
					_, _ = conn.Write([]byte(answer))
					_ = conn.Close()
				}
			}()
			home := newHome(t, "")
			if err := os.WriteFile(filepath.Join(home, "api.key"), []byte("a-key-of-this-home-and-no-other\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, errs, code := cli(t, home, "--addr", stranger.Addr().String(), "status")
			oneLine(t, errs, code, 1, "does not answer as a gatewayd does", "--addr")
		})
	}
}

// A board whose file is a link is served like any other.
func TestABoardFileBehindALink(t *testing.T) {
	t.Parallel()
	home := newHome(t, "model: {provider: offline}\nkanban:\n  lanes:\n    echo: {preset: command, argv: [sh, -c, 'true']}\n")
	if _, errs, code := cli(t, home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	away := t.TempDir()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(filepath.Join(home, "kanban.db"+suffix), filepath.Join(away, "kanban.db"+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(away, "kanban.db"), filepath.Join(home, "kanban.db")); err != nil {
		t.Fatal(err)
	}
	d := start(t, home)
	var made struct{ Task card }
	d.call(http.MethodPost, "/api/boards/default/tasks", map[string]string{"title": "a card behind a link", "assignee": "echo"}, &made)
	d.until("the card is done", func() bool { return d.cards("default")[made.Task.ID].Status == "done" })
	d.stop()
}

// A model that does not answer is told once, with what became of the message and what to do, and the verb fails.
func TestChatSaysOnceWhyThereIsNoAnswer(t *testing.T) {
	model := fakellm.New(t, fakellm.Error{Status: 401, Message: "no such key"}, fakellm.Text{Text: "I am back."})
	d := start(t, newHome(t, fmt.Sprintf("model: {base_url: %q, name: m, max_retries: 0}\n", model.URL())))
	out, errs, code := cli(t, d.home, "chat", "hello")
	oneLine(t, errs, code, 1, "model m could not answer", "the message is stored", "check the API key")
	if out != "" {
		t.Errorf("it printed %q", out)
	}
	for _, words := range []string{"no such key", "check the API key"} {
		if n := strings.Count(errs, words); n != 1 {
			t.Errorf("%q is said %d times", words, n)
		}
	}
	if out, errs, code := cli(t, d.home, "chat", "again"); code != 0 || out != "I am back.\n" {
		t.Errorf("the next message: code %d, %q, %s", code, out, errs)
	}
	d.stop()
}

// Half an answer is shown and is no success.
func TestChatFailsOnHalfAnAnswer(t *testing.T) {
	model := fakellm.New(t, fakellm.DropMidStream{Text: "half an answer", After: 1}, fakellm.Error{Status: 401}, fakellm.Error{Status: 401})
	d := start(t, newHome(t, fmt.Sprintf("model: {base_url: %q, name: m, max_retries: 0}\n", model.URL())))
	out, errs, code := cli(t, d.home, "chat", "--session", "half", "hello")
	oneLine(t, errs, code, 1, "could not answer")
	if !strings.HasPrefix(out, "half") || !strings.HasSuffix(out, "\n") {
		t.Errorf("it printed %q", out)
	}
	d.stop()
}

// Ctrl-C before the first word stops the turn and says so, without the words of the HTTP library.
func TestCtrlCInAChatBeforeTheFirstWord(t *testing.T) {
	asked := make(chan struct{})
	model := fakellm.New(t, fakellm.Func(func(fakellm.Request) fakellm.Response { close(asked); return fakellm.Hang{} }))
	d := start(t, newHome(t, fmt.Sprintf("model: {base_url: %q, name: m}\n", model.URL())))
	var out, errs bytes.Buffer
	chat, err := reaper.StartChild([]string{program, "--home", d.home, "chat", "--session", "stopped", "hello"},
		[]string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.home}, d.home, &out, &errs)
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := chat.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	code, _, err := chat.Wait()
	if err != nil {
		t.Fatal(err)
	}
	oneLine(t, errs.String(), code, 1, "was stopped", "session stopped")
	d.until("the interrupted turn has its row", func() bool { return roles(d.rows("stopped")) == "user assistant" })
	d.stop()
}

// A state.db that is taken away under the daemon costs no row and no silence: messages are refused in words, no new file
// is made in its place, and when it is put back the same process goes on.
func TestAStateFileThatIsTakenAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	home := newHome(t, "model: {provider: offline}\n")
	d := start(t, home)
	if err := d.say("s", "kept", nil); err != nil {
		t.Fatal(err)
	}
	away := t.TempDir()
	move := func(from, to string) {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Rename(filepath.Join(from, "state.db"+suffix), filepath.Join(to, "state.db"+suffix)); err != nil {
				t.Fatal(err)
			}
		}
	}
	move(home, away)
	for range 2 {
		if err := d.say("s", "refused", nil); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "state.db") {
			t.Errorf("a message to a file that is gone: %v", err)
		}
	}
	if how := d.check("state.db"); !strings.HasPrefix(how, "failed") || !strings.Contains(how, "does not exist") {
		t.Errorf("health says %q", how)
	}
	if _, err := os.Stat(filepath.Join(home, "state.db")); err == nil {
		t.Error("a new state.db was made in the place of the one that is gone")
	}
	move(away, home)
	d.speak("s", "again")
	if rows := d.rows("s"); len(rows) != 4 || rows[0].Content != "kept" {
		t.Errorf("rows afterwards: %+v", rows)
	}
	d.stop()
}

// A demo that is stopped in the middle leaves nothing behind: no process, no directory.
func TestAStoppedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	var errs bytes.Buffer
	started, out := newWatcher("cards are claimed")
	demo, err := reaper.StartChild([]string{program, "demo"}, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + tmp, "TMPDIR=" + tmp}, tmp, out, &errs)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-started:
	case <-demo.Done():
		t.Fatal("the demo ended too early")
	}
	if err := demo.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	code, _, err := demo.Wait()
	if err != nil {
		t.Fatal(err)
	}
	oneLine(t, errs.String(), code, 1, "the demo was stopped")
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) != 0 {
		t.Errorf("left in the temporary directory: %v %v", left, err)
	}
}

// watcher is a stream that tells when it has shown some words.
type watcher struct {
	words string
	seen  chan struct{}
	all   []byte
	once  sync.Once
}

func newWatcher(words string) (<-chan struct{}, *watcher) {
	w := &watcher{words: words, seen: make(chan struct{})}
	return w.seen, w
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.all = append(w.all, p...); strings.Contains(string(w.all), w.words) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(p), nil
}
