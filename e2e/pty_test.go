package e2e

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// person sits at a terminal: what is typed goes through a real pair of pseudo-terminals, and what a terminal makes of the program's
// output is what is seen.
type person struct {
	t       *testing.T
	cmd     *exec.Cmd
	tty     *os.File
	changed chan struct{} // one token: something was written
	over    chan struct{} // closed when nothing more is written

	mu     sync.Mutex
	screen *vt.Emulator
	raw    strings.Builder
}

// sitDown starts a verb at a terminal of that size. The terminal is there until the test ends.
func sitDown(t *testing.T, columns, rows int, home string, env []string, args ...string) *person {
	t.Helper()
	cmd := exec.Command(program, append([]string{"--home", home}, args...)...)
	cmd.Env = append(homeEnv(home), append([]string{"TERM=xterm-256color"}, env...)...)
	return sitAt(t, columns, rows, cmd)
}

// sitAt starts any command at a terminal.
func sitAt(t *testing.T, columns, rows int, cmd *exec.Cmd) *person {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, cmd: cmd, tty: tty, changed: make(chan struct{}, 1), over: make(chan struct{}), screen: vt.NewEmulator(columns, rows)}
	go func() { _, _ = io.Copy(tty, p.screen) }() // what the terminal itself answers
	go p.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		_ = cmd.Wait()
		_ = tty.Close()
		_ = p.screen.Close()
	})
	return p
}

func (p *person) read() {
	defer close(p.over)
	buffer := make([]byte, 64<<10)
	for {
		n, err := p.tty.Read(buffer)
		p.mu.Lock()
		_, _ = p.screen.Write(buffer[:n])
		p.raw.Write(buffer[:n])
		p.mu.Unlock()
		select {
		case p.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// types presses keys.
func (p *person) types(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.tty, keys); err != nil {
		p.t.Fatalf("type %.40q: %v\n%s", keys, err, p.all())
	}
}

// pastes puts a text in as a terminal does that was told to mark what is pasted.
func (p *person) pastes(text string) { p.types("\x1b[200~" + text + "\x1b[201~") }

// window is what the terminal shows now.
func (p *person) window() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.String()
}

// all is what was ever printed and is still there, from the first row on.
func (p *person) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, row := range p.screen.Scrollback().Lines() {
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return b.String() + p.screen.String()
}

// sees waits until a text is on the screen or above it.
func (p *person) sees(words ...string) {
	p.t.Helper()
	p.until("there is "+strings.Join(words, ", "), func(all string) bool {
		for _, w := range words {
			if !strings.Contains(all, w) {
				return false
			}
		}
		return true
	})
}

// until waits for something to become true of all that is shown.
func (p *person) until(what string, ok func(all string) bool) {
	p.t.Helper()
	bound := time.NewTimer(seen)
	defer bound.Stop()
	for !ok(p.all()) {
		select {
		case <-p.changed:
		case <-bound.C:
			p.t.Fatalf("never: %s\n%s", what, p.all())
		case <-p.over:
			if !ok(p.all()) {
				p.t.Fatalf("it ended, and never: %s\n%s", what, p.all())
			}
		}
	}
}

// resizes makes the terminal another size.
func (p *person) resizes(columns, rows int) {
	p.t.Helper()
	p.mu.Lock()
	p.screen.Resize(columns, rows)
	p.mu.Unlock()
	if err := pty.Setsize(p.tty, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the end of the program and gives its code.
func (p *person) ends() int {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(seen):
		p.t.Fatalf("it does not end\n%s", p.all())
	}
	err := p.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return 0
}

// passer is a way to a daemon that can be cut.
type passer struct {
	net.Listener
	mu   sync.Mutex
	to   string
	open []net.Conn
	mute bool
	shut string // requests with this text do not get through
}

func newPasser(t *testing.T, w *scene) *passer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &passer{Listener: l}
	p.leads(w)
	t.Cleanup(func() { _ = l.Close(); p.cut() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", p.target())
			if err != nil {
				_ = from.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, from, to)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(p.forth(to), from); _ = from.Close(); _ = to.Close() }()
			go func() { _, _ = io.Copy(p.back(from), to); _ = from.Close() }()
		}
	}()
	return p
}

func (p *passer) addr() string { return p.Addr().String() }

// leads makes it the way to the daemon that a scene has now.
func (p *passer) leads(w *scene) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = strings.TrimPrefix(w.base, "http://")
}

func (p *passer) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

// shuts ends each connection on which a request with such a text comes; with an empty one all get through again.
func (p *passer) shuts(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = text
}

func (p *passer) forth(to io.Writer) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		p.mu.Lock()
		ends := p.shut != "" && bytes.Contains(b, []byte(p.shut))
		p.mu.Unlock()
		if ends {
			return 0, io.ErrClosedPipe
		}
		return to.Write(b)
	})
}

// cut closes each connection that is open now.
func (p *passer) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}

// seen is how long a person waits for something to be shown.
const seen = 20 * time.Second

// deaf makes the way lead there and not back: what the daemon answers is lost.
func (p *passer) deaf(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = on
}

func (p *passer) back(to io.Writer) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		p.mu.Lock()
		lost := p.mute && bytes.Contains(b, []byte("message.accepted"))
		p.mu.Unlock()
		if lost {
			return len(b), nil
		}
		return to.Write(b)
	})
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }
