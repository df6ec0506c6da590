package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/fakellm"
)

// clientCase is one thing that happens to a front end, or that it does.
type clientCase struct {
	name string
	run  func(*terminal)
}

// terminal is a daemon with a front end in the conversation "front".
type terminal struct {
	*scene
	*front
	t *testing.T
}

const fronted = "front"

// A front end that speaks lines is told of everything in frames and in nothing else, has its answers while a turn is wedged, and
// leaves nothing behind when it goes, however it goes.
func TestAFrontEndIsToldInFramesAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	together(t, clientCases(), func(c clientCase) string { return c.name }, func(t *testing.T, c clientCase) {
		s := newScene(t, forever(), fickle)
		w := &terminal{scene: s, front: s.front(), t: t}
		c.run(w)
		_ = w.in.Close()
		if code := w.leaves(exitBound); code != 0 {
			t.Errorf("the client ended with code %d: %s", code, w.errs.String())
		}
		s.leaveWith(0, termBound)
		rows, audit := readStore(t, s.home, fronted)
		if found := alternate(rows); len(rows) > 0 && len(found) > 0 || !audit.OK() {
			t.Errorf("the rows: %q, %v", found, audit.Findings)
		}
		if left := nobodyOf(t, s.home, reapBound); len(left) > 0 {
			t.Errorf("outlived the daemon: %q", left)
		}
	})
}

// fickle is an obedient model that can be told to refuse.
func fickle(r fakellm.Request) fakellm.Response {
	if strings.HasPrefix(lastUser(r), "refuse") {
		return fakellm.Error{Status: http.StatusBadRequest, Message: "this server does not like the request"}
	}
	return obedient(r)
}

func clientCases() []clientCase {
	return []clientCase{
		{"the_first_frame_is_ready", func(c *terminal) {
			first := c.front.until("a frame", patience, func(frame) bool { return true })
			if first.Method != "gateway.ready" || first.Params.PID != c.cmd.Process.Pid || len(c.passed) > 0 {
				c.t.Errorf("the first frame is %s", first.raw)
			}
			c.says("hello", "Answer to hello.")
		}},
		{"a_prompt_streams_and_completes", func(c *terminal) { c.enter(fronted); c.says("hello", "Answer to hello.") }},
		{"resume_carries_the_history", (*terminal).resumes},
		{"tools_are_told", func(c *terminal) {
			c.enter(fronted)
			c.prompt("$ echo seen")
			c.front.until("tool.started", patience, called("tool.started"))
			c.front.until("tool.completed", patience, func(f frame) bool { return f.Method == "tool.completed" && strings.Contains(f.raw, "seen") })
			if end := c.complete(patience); !strings.Contains(end.Params.Text, "It said: seen") {
				c.t.Errorf("the end says %s", end.raw)
			}
		}},
		{"a_failure_is_told", func(c *terminal) {
			c.enter(fronted)
			c.prompt("refuse this")
			if end := c.complete(patience); !end.Params.Failed || !strings.Contains(end.raw, "does not like the request") {
				c.t.Errorf("the end says %s", end.raw)
			}
			c.says("hello", "Answer to hello.")
		}},
		{"ping_and_status_while_the_model_hangs", func(c *terminal) { c.wedged("hang"); c.looks(); c.interrupted() }},
		{"ping_and_status_while_a_command_hangs", func(c *terminal) { c.wedged("sleep"); c.looks(); c.interrupted() }},
		{"a_second_prompt_while_busy_is_4009", func(c *terminal) {
			c.wedged("hang")
			if one := c.do(quickAnswer, "prompt.submit", map[string]any{"text": "me too"}); one.Error == nil || one.Error.Code != 4009 {
				c.t.Errorf("a second prompt was answered with %s", one.raw)
			}
			c.interrupted()
			if n := countTold(c.rows(fronted), "me too"); n > 0 {
				c.t.Errorf("what was refused is stored")
			}
		}},
		{"interrupt_while_the_model_hangs", func(c *terminal) { c.wedged("hang"); c.interrupted(); c.says("hello", "Answer to hello.") }},
		{"interrupt_while_a_command_hangs", func(c *terminal) { c.wedged("sleep"); c.interrupted(); c.says("hello", "Answer to hello.") }},
		{"end_of_input_while_the_model_hangs", func(c *terminal) { c.wedged("hang"); _ = c.in.Close(); c.gone() }},
		{"end_of_input_while_a_command_runs", func(c *terminal) { c.wedged("sleep"); _ = c.in.Close(); c.gone() }},
		{"sigterm_while_a_command_runs", func(c *terminal) { c.wedged("sleep"); c.signal(syscall.SIGTERM); c.gone() }},
	}
}

// says has a whole turn.
func (c *terminal) says(text, answer string) {
	c.t.Helper()
	c.prompt(text)
	shown := ""
	for shown != answer {
		shown += c.front.until("more of "+answer+" than "+shown, patience, called("message.delta")).Params.Text
	}
	if end := c.complete(patience); !end.Params.Completed || end.Params.Text != answer {
		c.t.Errorf("%q was answered with %s", text, end.raw)
	}
}

// resumes goes on with a conversation in a client of its own.
func (c *terminal) resumes() {
	c.enter(fronted)
	c.says("hello", "Answer to hello.")
	_ = c.in.Close()
	if code := c.leaves(exitBound); code != 0 {
		c.t.Errorf("the client ended with code %d: %s", code, c.errs.String())
	}
	c.front = c.scene.front()
	c.front.until("ready", patience, called("gateway.ready"))
	c.must("session.resume", map[string]any{"session": fronted})
	c.says("again", "Answer to again.")
	requests := c.model.Main()
	if sent := messagesOf(requests[len(requests)-1]); countIn(sent, "hello") != 2 {
		c.t.Errorf("the history was not carried: %+v", sent)
	}
}

// wedged begins a turn that nothing would end.
func (c *terminal) wedged(cause string) {
	c.t.Helper()
	c.enter(fronted)
	c.prompt(cause + " for ever")
	c.await(1)
	if cause == "sleep" {
		c.scene.until("the command runs", func() bool { return len(commands(c.t, c.home)) > 0 })
	}
}

// looks has quick answers beside a turn that has none.
func (c *terminal) looks() {
	c.t.Helper()
	if one := c.do(quickAnswer, "ping", nil); !one.Result.Pong {
		c.t.Errorf("ping: %s", one.raw)
	}
	if one := c.do(quickAnswer, "session.status", nil); !one.Result.Running || !strings.Contains(one.Result.Text, fakellm.Model) {
		c.t.Errorf("status: %s", one.raw)
	}
}

// interrupted ends the turn as a person does.
func (c *terminal) interrupted() {
	c.t.Helper()
	c.must("session.interrupt", nil)
	if end := c.complete(stopBound); !end.Params.Interrupted || end.Params.Text == "" {
		c.t.Errorf("an interrupted turn ended with %s", end.raw)
	}
	if pids := commands(c.t, c.home); len(pids) > 0 {
		c.t.Errorf("commands of a turn that was ended still run: %v", pids)
	}
}

// gone waits for the client's end, and demands that its turn ended with it.
func (c *terminal) gone() {
	c.t.Helper()
	c.leaves(exitBound)
	c.scene.until("its turn has ended", func() bool {
		rows := c.rows(fronted)
		return rows[len(rows)-1].Role == "assistant" && len(commands(c.t, c.home)) == 0
	})
}

// A daemon that is killed in the middle of a turn is told by its front end, which then ends with the code that says so.
func TestAFrontEndSaysThatItsDaemonIsGone(t *testing.T) {
	t.Parallel()
	s := newScene(t, forever(), fickle)
	c := &terminal{scene: s, front: s.front(), t: t}
	c.wedged("hang")
	s.killed()
	c.front.until("words about it", patience, called("error"))
	if code := c.leaves(exitBound); code != 69 {
		t.Errorf("the client ended with code %d: %s", code, c.errs.String())
	}
}
