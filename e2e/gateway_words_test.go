package e2e

import (
	"net/http"
	"strings"
	"testing"

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
