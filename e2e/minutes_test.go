package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/procfs"
	"gatewayd/internal/vigil"
)

// newcomer is a new user with docs/first-ten-minutes.md beside the keyboard: each command is the page's next one.
type newcomer struct {
	t      *testing.T
	home   string // the user's, not gatewayd's
	page   string
	left   []string          // commands that were not typed yet
	put    map[string]string // what stands on the page for what only this machine knows
	daemon *person
	model  *fakellm.Server
}

func settlesIn(t *testing.T, model *fakellm.Server) *newcomer {
	t.Helper()
	raw, err := os.ReadFile("../docs/first-ten-minutes.md")
	if err != nil {
		t.Fatal(err)
	}
	n := &newcomer{t: t, home: t.TempDir(), page: string(raw), put: map[string]string{}, model: model}
	for _, block := range n.blocks("sh") {
		n.left = append(n.left, strings.Split(strings.TrimSpace(block), "\n")...)
	}
	return n
}

func (n *newcomer) blocks(language string) (found []string) {
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(n.page, -1) {
		found = append(found, m[1])
	}
	return found
}

// own is a path in gatewayd's home.
func (n *newcomer) own(path ...string) string {
	return filepath.Join(append([]string{n.home, ".gatewayd"}, path...)...)
}

// next is the page's next command, which begins with these words, with what this machine knows put in.
func (n *newcomer) next(begins string) string {
	n.t.Helper()
	if len(n.left) == 0 || !strings.HasPrefix(n.left[0], begins) {
		n.t.Fatalf("the page goes on with %q, not with %q", n.left, begins)
	}
	line := n.left[0]
	n.left = n.left[1:]
	for stands, real := range n.put {
		line = strings.ReplaceAll(line, stands, real)
	}
	return line
}

// shell is a command line of this user. Programs among temporary files are as good as any other here.
func (n *newcomer) shell(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", "exec "+line)
	cmd.Dir = n.home
	cmd.Env = append(homeEnv(n.home), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "TMPDIR="+n.home, "TERM=xterm-256color")
	return cmd
}

// does types the page's next command and gives what it printed. It ends with this code.
func (n *newcomer) does(begins string, code int) string {
	n.t.Helper()
	return n.runs(n.next(begins), code)
}

func (n *newcomer) runs(line string, code int) string {
	n.t.Helper()
	w := n.begins(line)
	w.ends()
	if got := w.cmd.ProcessState.ExitCode(); got != code {
		n.t.Fatalf("%s\nended with %d\n%s", line, got, w.printed())
	}
	return w.printed()
}

// window is a command that is still at work.
type window struct {
	t       *testing.T
	cmd     *exec.Cmd
	changed chan struct{}
	over    chan struct{}
	mu      sync.Mutex
	out     bytes.Buffer
}

func (n *newcomer) begins(line string) *window {
	n.t.Helper()
	w := &window{t: n.t, cmd: n.shell(line), changed: make(chan struct{}, 1), over: make(chan struct{})}
	w.cmd.Stdout, w.cmd.Stderr = w, w
	if err := w.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	go func() { defer close(w.over); _ = w.cmd.Wait() }()
	n.t.Cleanup(func() { _ = w.cmd.Process.Kill(); <-w.over })
	return w
}

func (w *window) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}()
	return w.out.Write(b)
}

func (w *window) printed() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

// sees waits until something is printed that matches, and gives it with its groups.
func (w *window) sees(pattern string) []string {
	w.t.Helper()
	bound := time.NewTimer(patience)
	defer bound.Stop()
	for {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(w.printed()); m != nil {
			return m
		}
		select {
		case <-w.changed:
		case <-w.over:
			if m := regexp.MustCompile(pattern).FindStringSubmatch(w.printed()); m != nil {
				return m
			}
			w.t.Fatalf("it ended without %s\n%s", pattern, w.printed())
		case <-bound.C:
			w.t.Fatalf("never %s\n%s", pattern, w.printed())
		}
	}
}

func (w *window) ends() {
	w.t.Helper()
	select {
	case <-w.over:
	case <-time.After(patience):
		w.t.Fatalf("%v does not end\n%s", w.cmd.Args, w.printed())
	}
}

// configures puts the page's configuration into the file, with this machine's model, a free port, and a grace that nobody waits for.
func (n *newcomer) configures(change ...string) {
	n.t.Helper()
	text := strings.NewReplacer(append([]string{"http://127.0.0.1:11434/v1", n.model.URL()}, change...)...).Replace(n.blocks("yaml")[0])
	text += "api: {addr: 127.0.0.1:0}\nagent: {shutdown_grace: 1s}\n"
	if err := os.WriteFile(n.own("config.yaml"), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// serves starts the daemon at a terminal and waits until it says that it is ready; took is how long it says that it took.
func (n *newcomer) serves() (took time.Duration) {
	n.t.Helper()
	n.daemon = sitAt(n.t, 300, 60, n.shell(n.next("gatewayd --foreground")))
	n.daemon.sees(" ready ", "took=")
	holder, held, err := config.HolderOf(n.own())
	if err != nil || !held {
		n.t.Fatalf("nobody holds the home: %v\n%s", err, n.daemon.all())
	}
	n.put["127.0.0.1:8642"] = holder.Addr
	n.put["kill -9 12345"] = "kill -9 " + regexp.MustCompile(`pid (\d+)`).FindStringSubmatch(n.daemon.all())[1]
	took, err = time.ParseDuration(regexp.MustCompile(`took=(\S+)`).FindStringSubmatch(n.daemon.all())[1])
	if err != nil {
		n.t.Fatal(err)
	}
	return took
}

// says fails unless a text has all these words.
func (n *newcomer) says(text string, words ...string) {
	n.t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			n.t.Errorf("no %q in\n%s", w, text)
		}
	}
}

// gone waits until a process is over.
func (n *newcomer) gone(pid int) {
	n.t.Helper()
	over := vigil.Until(patience, nil, func() bool {
		stat, err := procfs.ReadStat(pid)
		return err != nil || stat.Dead()
	})
	if !over {
		n.t.Fatalf("process %d is still there", pid)
	}
}
