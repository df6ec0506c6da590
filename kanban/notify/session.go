package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Sessions are the chats of this home.
type Sessions interface {
	// Has reports whether the session is kept here.
	Has(ctx context.Context, session string) (bool, error)
	// Deliver stores a text in the session, once for each key, and returns when it is durable. With wake it is a message
	// to the model, which answers it in its own time; otherwise it is a line for people.
	Deliver(ctx context.Context, session, key, text string, wake bool) error
}

// sessionTime bounds the wait for a conversation that is busy; after it the row waits its time like any other.
const sessionTime = 30 * time.Second

// wakes are the events after which somebody has to decide something.
var wakes = []string{
	"completed", "gave_up", "crashed", "timed_out", "blocked", "review_requested", "changes_requested", "block_loop_detected",
}

type session struct {
	id       string
	sessions Sessions
}

func (s session) send(ctx context.Context, m message) outcome {
	ctx, cancel := context.WithTimeout(ctx, sessionTime)
	defer cancel()
	if err := s.sessions.Deliver(ctx, s.id, m.key, m.text(), slices.Contains(wakes, m.kind)); err != nil {
		return failed(err)
	}
	return ok()
}

const textMax = 2000

// text is the message for people and models. What a card's worker wrote stands in it between marks: it is data of another
// program and no instruction.
func (m message) text() string {
	var in struct {
		Event struct{ Payload map[string]any }
		Task  *struct{ Title, Status string }
	}
	_ = json.Unmarshal(m.body, &in) // what cannot be read is not shown
	text := fmt.Sprintf("[board %s] card %s: %s", m.board, m.task, strings.ReplaceAll(m.kind, "_", " "))
	if in.Task != nil {
		text += fmt.Sprintf("\ntitle: %s\nstatus: %s", short(in.Task.Title), in.Task.Status)
	}
	for _, key := range []string{"reason", "summary", "error"} {
		if said, ok := in.Event.Payload[key].(string); ok && said != "" {
			text += fmt.Sprintf("\n%s, as its worker wrote it:\n<<<\n%s\n>>>", key, short(said))
		}
	}
	return text
}

func short(s string) string {
	s = strings.TrimSpace(strings.NewReplacer("<<<", "‹‹‹", ">>>", "›››").Replace(s))
	if utf8.RuneCountInString(s) <= textMax {
		return s
	}
	return string([]rune(s)[:textMax]) + "…"
}
