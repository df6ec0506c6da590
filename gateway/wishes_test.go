package gateway

import (
	"encoding/json"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// What the client of a run asked of its answers counts in the process that goes on with its turn, and in the one that begins it because the
// first had only accepted it. The next message asks for nothing.
func TestATurnThatGoesOnKeepsWhatWasAskedOfItsAnswers(t *testing.T) {
	gate := make(chan struct{})
	h := newHouse(t, nil, fakellm.Text{Text: "half of it is there", ChunkChars: 5, Gate: gate})
	for uid, text := range map[string]string{"u1": "go", "u2": "and then"} {
		run := sessiondb.Run{
			ID: "run_" + uid, Session: "s1", UID: uid, Status: sessiondb.RunQueued, CreatedAt: time.Now(),
			Request: json.RawMessage(`{"temperature":0.25,"max_tokens":77,"stop":["THE END"],"seed":5}`),
		}
		if _, err := h.Post(soon(t), Say{Session: "s1", Source: SourceAPI, Text: text, UID: uid, Run: &sessiondb.NewRun{Run: run}}); err != nil {
			t.Fatal(err)
		}
	}
	gate <- struct{}{}
	h.stop()
	h.llm.Push(fakellm.Text{Text: "and the rest"}, fakellm.Text{Text: "second"}, fakellm.Text{Text: "third"})
	h.restart(nil)
	if found, err := h.Recover(soon(t)); err != nil || len(found) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	until(t, h, "resumed, and said", func(s Status) bool { return s.Turns == 2 })
	if _, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "now plain"}, nil); err != nil {
		t.Fatal(err)
	}
	requests := h.llm.Requests()
	if len(requests) != 4 {
		t.Fatalf("%d requests", len(requests))
	}
	for i, asked := range requests {
		var body struct {
			Temperature *float64
			MaxTokens   int `json:"max_tokens"`
			Stop        []string
			Seed        int
		}
		if err := json.Unmarshal(asked.Body, &body); err != nil {
			t.Fatal(err)
		}
		wished := body.Temperature != nil && *body.Temperature == 0.25 && body.MaxTokens == 77 && len(body.Stop) == 1 && body.Seed == 5
		if wished != (i < 3) {
			t.Errorf("request %d asks for %+v", i, body)
		}
	}
}
