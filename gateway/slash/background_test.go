package slash

import (
	"context"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// kitchen counts what runs in the background of each conversation.
type kitchen map[string]int

func (k kitchen) StopSession(_ context.Context, session string) int {
	n := k[session]
	delete(k, session)
	return n
}

func TestStopAndNewEndWhatRunsInTheBackground(t *testing.T) {
	h := newHouse(t, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"})
	h.say("s1", "hello")
	h.say("s2", "hello")
	pots := kitchen{"s1": 2, "s2": 1}
	h.Background = pots
	if r := h.run("s1", "/stop"); !strings.Contains(r.Text, "Ended in the background: 2 commands") || pots["s2"] != 1 {
		t.Errorf("%+v, left %v", r, pots)
	}
	if r := h.run("s2", "/new"); !strings.Contains(r.Text, "Ended in the background of the old one: 1 command") || len(pots) != 0 {
		t.Errorf("%+v, left %v", r, pots)
	}
}
