package e2e

import (
	"sync/atomic"
	"testing"

	"gatewayd/internal/fakellm"
)

// Keys of a terminal.
const (
	enter, ctrlC, ctrlD, ctrlR, altEnter = "\r", "\x03", "\x04", "\x12", "\x1b\r"
	up, down, tab, backspace             = "\x1b[A", "\x1b[B", "\t", "\x7f"
)

// A conversation at a terminal: what is said stands once, its answer below it, and what it took.
func TestAPersonTalksAtATerminal(t *testing.T) {
	t.Parallel()
	w := newScene(t, hasty(), script(fakellm.Text{Text: "Good **morning**, you. This is a somewhat longer answer, so that the row has to be broken somewhere between its words."}, fakellm.Text{Text: "Second."}))
	p := sitDown(t, 60, 20, w.home, nil, "chat", "--session", "desk")
	p.sees("conversation desk", ">")
	p.types("hello" + enter)
	p.sees("Good **morning**, you.", "tokens in", "fake-model")
	p.types("and again" + enter)
	p.sees("Second.")
	for _, once := range []string{"> hello", "Good **morning**", "> and again", "Second."} {
		if n := p.times(once); n != 1 {
			t.Errorf("%q stands %d times", once, n)
		}
	}
	p.types(ctrlD)
	if code := p.ends(); code != 0 {
		t.Errorf("code %d", code)
	}
	if rows := said(w.rows("desk")); rows == "" {
		t.Error("no rows")
	}
	t.Log("\n" + p.all())
	w.stop()
}

// script answers one after the other, the last one for ever.
func script(list ...fakellm.Response) func(fakellm.Request) fakellm.Response {
	var n atomic.Int64
	return func(fakellm.Request) fakellm.Response { return list[min(int(n.Add(1)), len(list))-1] }
}
