package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// front is `gatewayd chat --jsonl` as a front end has it: lines go in, lines come out.
type front struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	frames chan frame // closed at the end of its output
	ended  chan error
	errs   bytes.Buffer
	n      int
	passed []frame // what came while something else was waited for
}

// frame is one line of output.
type frame struct {
	ID     *int
	Method string
	Params struct {
		Session, Text, Tool            string
		Error                          string
		Running                        bool
		Completed, Failed, Interrupted bool
		PID                            int
	}
	Result struct {
		Session, Text string
		Pong, Running bool
		Accepted      bool
	}
	Error *struct {
		Code    int
		Message string
	}
	raw string
	bad error
}

// front starts the client of a daemon.
func (d *daemon) front(args ...string) *front {
	d.t.Helper()
	f := &front{t: d.t, frames: make(chan frame, 10_000), ended: make(chan error, 1)}
	f.cmd = exec.Command(program, append([]string{"--home", d.home, "chat", "--jsonl"}, args...)...)
	f.cmd.Env, f.cmd.Stderr = homeEnv(d.home), &f.errs
	out, err := f.cmd.StdoutPipe()
	if err == nil {
		f.in, err = f.cmd.StdinPipe()
	}
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	go f.read(out)
	d.t.Cleanup(func() { _ = f.in.Close(); _ = f.cmd.Process.Kill(); <-f.ended })
	return f
}

// read takes lines to the end, and then the exit.
func (f *front) read(out io.Reader) {
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			var one frame
			one.raw = line
			one.bad = json.Unmarshal([]byte(line), &one)
			f.frames <- one
		}
		if err != nil {
			break
		}
	}
	close(f.frames)
	err := f.cmd.Wait()
	f.ended <- err
	close(f.ended)
}

// ask sends a request and does not wait.
func (f *front) ask(method string, params map[string]any) (id int) {
	f.t.Helper()
	f.n++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": f.n, "method": method, "params": params})
	if err == nil {
		_, err = f.in.Write(append(line, '\n'))
	}
	if err != nil {
		f.t.Errorf("%s: %v", method, err)
	}
	return f.n
}

// until gives the first frame that is one, which has to come within a limit. What comes before it is kept for later.
func (f *front) until(what string, limit time.Duration, is func(frame) bool) frame {
	f.t.Helper()
	for i, one := range f.passed {
		if is(one) {
			f.passed = append(f.passed[:i:i], f.passed[i+1:]...)
			return one
		}
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		select {
		case one, more := <-f.frames:
			switch {
			case !more:
				f.t.Fatalf("%s: the client has ended: %s", what, f.errs.String())
			case one.bad != nil:
				f.t.Fatalf("a line that is no frame: %q, %v", one.raw, one.bad)
			case is(one):
				return one
			}
			f.passed = append(f.passed, one)
		case <-late.C:
			f.t.Fatalf("not within %v: %s; there came %s", limit, what, f.seen())
		}
	}
}

// seen is what came and was not waited for.
func (f *front) seen() string {
	var b strings.Builder
	for _, one := range f.passed {
		b.WriteString(one.raw)
	}
	return b.String()
}

func answerTo(id int) func(frame) bool {
	return func(f frame) bool { return f.ID != nil && *f.ID == id }
}

func called(method string) func(frame) bool {
	return func(f frame) bool { return f.Method == method }
}

// do sends a request and waits for its answer.
func (f *front) do(limit time.Duration, method string, params map[string]any) frame {
	f.t.Helper()
	return f.until("an answer to "+method, limit, answerTo(f.ask(method, params)))
}

// must is do for what cannot be refused.
func (f *front) must(method string, params map[string]any) frame {
	f.t.Helper()
	one := f.do(patience, method, params)
	if one.Error != nil {
		f.t.Fatalf("%s: %s", method, one.raw)
	}
	return one
}

// enter begins a conversation.
func (f *front) enter(session string) {
	f.t.Helper()
	f.until("ready", patience, called("gateway.ready"))
	f.must("session.create", map[string]any{"session": session})
}

// prompt says something that is accepted.
func (f *front) prompt(text string) {
	f.t.Helper()
	if one := f.must("prompt.submit", map[string]any{"text": text}); !one.Result.Accepted {
		f.t.Errorf("not accepted: %s", one.raw)
	}
}

// complete waits for the end of the turn.
func (f *front) complete(limit time.Duration) frame {
	f.t.Helper()
	end := f.until("message.complete", limit, called("message.complete"))
	if info := f.until("session.info", quickAnswer, func(f frame) bool { return f.Method == "session.info" && !f.Params.Running }); info.Params.Session != end.Params.Session {
		f.t.Errorf("the end of %s is followed by %s", end.raw, info.raw)
	}
	return end
}

// leaves waits for the end of the client and gives its exit code; -1 is a signal, or that it has not ended.
func (f *front) leaves(limit time.Duration) int {
	f.t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		select {
		case one, more := <-f.frames:
			if !more {
				f.frames = nil
			} else {
				f.passed = append(f.passed, one)
			}
		case <-f.ended:
			return f.cmd.ProcessState.ExitCode()
		case <-late.C:
			f.t.Errorf("the client has not ended within %v; there came %s", limit, f.seen())
			return -1
		}
	}
}

func (f *front) signal(sig syscall.Signal) {
	f.t.Helper()
	if err := f.cmd.Process.Signal(sig); err != nil {
		f.t.Fatal(err)
	}
}
