package gateway

import (
	"errors"
	"os"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// loseWAL takes the -wal from under the open store, after what is in it was moved into the file.
func (h *house) loseWAL() {
	if _, err := h.store.File().Checkpoint(h.t.Context()); err != nil {
		h.t.Error(err)
	}
	if err := os.Remove(h.path + "-wal"); err != nil {
		h.t.Error(err)
	}
}

// heal puts a fresh store behind the running gateway, as the registry does when a generation was lost.
func (h *house) heal() {
	h.t.Helper()
	if err := h.store.Close(); err != nil {
		h.t.Fatal(err)
	}
	store, err := sessiondb.Open(h.t.Context(), sessiondb.Options{Path: h.path, Log: quiet(), Heal: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = store.Close() })
	h.store, h.spy.Store, h.spy.refuse = store, store, nil
}

// Wherever in a turn the store is lost, what was said is kept, nothing is called stored that is not, no new turn begins, and
// after the heal the conversation reads as if each row had come in its turn.
func TestATurnWhoseStoreIsLostKeepsWhatWasSaid(t *testing.T) {
	cases := map[string]struct {
		at      func(sessiondb.NewMessage) bool
		refused bool   // the turn did not begin
		shape   string // after the heal and one more turn
	}{
		"P1 user row": {
			func(m sessiondb.NewMessage) bool { return m.Role == roleUser }, true,
			"user/spooled assistant/closing user assistant+1 tool assistant",
		},
		"P2 calls": {
			func(m sessiondb.NewMessage) bool { return len(m.ToolCalls) > 0 }, false,
			"user assistant+1/spooled tool/repair assistant/closing user assistant",
		},
		"P3 result": {
			func(m sessiondb.NewMessage) bool { return m.Role == roleTool }, false,
			"user assistant+1 tool/spooled assistant/closing user assistant",
		},
		"P5 answer": {
			func(m sessiondb.NewMessage) bool {
				return m.Role == roleAssistant && len(m.ToolCalls) == 0 && m.Kind == ""
			}, false,
			"user assistant+1 tool assistant/spooled user assistant",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h, _ := watched(t)
			h.llm.Push(fakellm.Text{Text: "again"})
			lost := false
			h.spy.refuse = func(rows []sessiondb.NewMessage) error {
				if !lost && c.at(rows[0]) {
					lost = true
					h.loseWAL()
				}
				return nil
			}
			r, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "first"}, nil)
			if c.refused != errors.Is(err, sessiondb.ErrSpooled) {
				t.Fatalf("say: %v", err)
			}
			said := r.Text
			if c.refused {
				said = err.Error()
			} else if r.Completed || r.Retryable || r.ExitReason != "session_persistence_failed" || !errors.Is(r.Error, sessiondb.ErrSpooled) {
				t.Errorf("result: %+v", r)
			}
			if !strings.Contains(said, "kept") {
				t.Errorf("a person is not told where it is: %s", said)
			}
			_, err = h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "refused"}, nil)
			if !problem.Is(err, problem.Unavailable) || errors.Is(err, sessiondb.ErrSpooled) || !strings.Contains(err.Error(), "takes no new messages") {
				t.Errorf("a message to a lost store: %v", err)
			}
			h.heal()
			if r := h.say(Say{Text: "next"}); !r.Completed {
				t.Errorf("after the heal: %+v", r)
			}
			rows := h.rows("s1")
			if got := shape(rows); got != c.shape {
				t.Errorf("rows:\n got %s\nwant %s", got, c.shape)
			}
			for _, row := range rows {
				if row.Content == "refused" {
					t.Error("a message that was refused is in the conversation")
				}
			}
			if r := planRepair(rows, rows[0].CreatedAt); !r.empty() {
				t.Errorf("there is still something to repair: %+v", r)
			}
		})
	}
}

// An answer that was consent is none any more when it comes back from the spool.
func TestASpooledConsentIsWithdrawn(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "done"})
	h.spy.refuse = func([]sessiondb.NewMessage) error { h.spy.refuse = nil; h.loseWAL(); return nil }
	if _, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "yes"}, nil); !errors.Is(err, sessiondb.ErrSpooled) {
		t.Fatal(err)
	}
	h.heal()
	h.say(Say{Text: "what now?"})
	if rows := h.rows("s1"); rows[0].Content != "yes" || rows[0].Wire != withdrawn {
		t.Errorf("%+v", rows[0])
	}
}
