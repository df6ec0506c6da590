package e2e

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// filled is a pipe that takes nothing more until somebody reads it.
func filled(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the pipe took all of it: %v", err)
	}
	return r, w
}

// A container whose log driver hangs, a terminal that is stopped: the daemon starts, answers and stops as if somebody read, and what it said
// meanwhile is out once somebody does.
func TestALogThatNobodyReadsHoldsUpNoTurn(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(fakellm.Options{Each: script(fakellm.Text{Text: "heard"})})
	t.Cleanup(model.Close)
	home := newHome(t, hasty().yaml(model.URL()))
	r, w := filled(t)
	d := launchTo(t, w, home, home, nil)
	d.ready()
	answered := make(chan error, 1)
	go func() {
		answered <- d.try(http.MethodPost, "/v1/chat/completions", map[string]any{"model": "gatewayd", "messages": []map[string]string{{"role": "user", "content": "anybody?"}}}, nil)
	}()
	select {
	case err := <-answered:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the turn waits for somebody to read the log")
	}
	w.Close() // the daemon's end is the only one from here on
	said := make(chan string)
	go func() {
		text, _ := io.ReadAll(r)
		said <- strings.TrimLeft(string(text), "\x00")
	}()
	d.stop()
	if text := <-said; !strings.Contains(text, `"msg":"ready"`) || !strings.Contains(text, `"msg":"stopped"`) {
		t.Errorf("it said:\n%s", text)
	}

	_, w = filled(t)
	d = launchTo(t, w, home, home, nil)
	d.ready()
	d.stop() // unheard
}
