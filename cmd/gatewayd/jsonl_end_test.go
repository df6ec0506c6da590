package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// A front end that hears no more, while it could still speak, has gone: its turns are closed and the program ends.
func TestClosedOutputEndsTheTurnsThatWereBegun(t *testing.T) {
	l := newLiner(t, fakellm.Hang{})
	l.send(`{"id":1,"method":"prompt.submit","params":{"text":"hello","session":"s1"}}`)
	l.until(answerTo(1))
	if _, err := l.llm.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	_ = l.frames.Close()
	l.send(`{"id":2,"method":"ping"}`)
	if err := l.end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if got := l.rows("s1"); !strings.HasPrefix(got, "user:hello|assistant:") {
		t.Errorf("the turn is left open: %s", got)
	}
}

// held is an output whose reader has stopped to read after the first frame.
type held struct{ reached, let chan struct{} }

func (h held) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("gateway.ready")) {
		h.reached <- struct{}{}
		<-h.let
	}
	return len(p), nil
}

// A front end that reads nothing any more holds up its answers and not the end.
func TestAFrontEndThatReadsNothingHoldsUpNoEnd(t *testing.T) {
	out := held{make(chan struct{}), make(chan struct{})}
	t.Cleanup(func() { close(out.let) })
	in, lines := io.Pipe()
	asked, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() {
		ended <- newFront(newClient("http://127.0.0.1:9", "k"), out, "").speak(context.Background(), in, asked)
	}()
	if _, err := fmt.Fprintln(lines, "no json"); err != nil {
		t.Fatal(err)
	}
	<-out.reached
	asked <- syscall.SIGTERM
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}
