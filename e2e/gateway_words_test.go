package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// Why a turn failed reaches the chat before it is told that the turn is over: a front end closes the message at its end.
func TestWhyATurnFailedComesBeforeItsEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t, hasty(), func(r fakellm.Request) fakellm.Response {
		switch messages := messagesOf(r); messages[len(messages)-1].Role {
		case "tool":
			return fakellm.Error{Status: http.StatusBadRequest, Message: "this server does not like the result"}
		default:
			return run("echo on my way")
		}
	})
	h := s.hear(t.Context(), "s", "try")
	why, finish, done := h.place("why"), h.place("finish"), h.place("done")
	if why < 0 || finish >= 0 && finish < why || done < why || !strings.Contains(h.words(), "does not like the result") {
		t.Errorf("the reason %q came at %d, the finish at %d, the end at %d: %+v", h.words(), why, finish, done, h.parts)
	}
	s.stop()
}

// A model that went silent too often is left alone; a new conversation tries it again at once.
func TestNewTriesAModelAgainThatWasLeftAlone(t *testing.T) {
	t.Parallel()
	k := hasty()
	k.stale, k.retries = time.Second, 0
	asleep := make(chan struct{})
	s := newScene(t, k, func(fakellm.Request) fakellm.Response {
		select {
		case <-asleep:
			return fakellm.Text{Text: "Awake."}
		default:
			return fakellm.Hang{}
		}
	})
	for range 5 {
		s.hear(t.Context(), "s", "hello?")
	}
	if h := s.hear(t.Context(), "s", "hello?"); len(s.model.Requests()) != 5 || !strings.Contains(h.words(), "next try") {
		t.Fatalf("after %d calls: %q", len(s.model.Requests()), h.words())
	}
	close(asleep)
	fresh := s.slash("s", "/new now").Session
	if h := s.hear(t.Context(), fresh, "hello?"); !strings.Contains(h.text, "Awake.") {
		t.Errorf("after /new: %q after %d calls", h.words(), len(s.model.Requests()))
	}
	s.stop()
}
