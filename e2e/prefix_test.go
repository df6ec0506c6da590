package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gatewayd/gateway"
	"gatewayd/internal/chamber"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// journey is one conversation that goes through many hands. Between its messages the world around it changes, and what the
// model is sent goes on where it stopped: every request begins with the one before it, byte for byte, but where the
// conversation was compacted.
type journey struct {
	name   string
	breaks int // requests that do not begin with the one before them
	steps  []func(*traveller)
}

// traveller is a journey under way.
type traveller struct {
	*scene
	n int // messages said
}

const travelled = "journey"

func journeys() []journey {
	restart := func(w *traveller) { w.stop(); w.again(w.home) }
	crash := func(w *traveller) { w.killed(); w.again(w.home) }
	elsewhere := func(w *traveller) { w.stop(); w.again(w.t.TempDir()) }
	return []journey{
		{name: "restarts", steps: []func(*traveller){
			byAPI, byAPI, restart, byAPI, crash, byAPI, byAPI, restart, crash, byAPI, restart, byAPI,
		}},
		{name: "directories", steps: []func(*traveller){
			byAPI, elsewhere, byAPI, byCLI, elsewhere, byCLI, byAPI, elsewhere, byCLI, byAPI,
		}},
		{name: "surfaces_and_a_compaction", breaks: 1, steps: []func(*traveller){
			byAPI, byCLI, byPost, byAPI, restart, byCLI, byPost, compress, byAPI, restart, byCLI, byAPI, byPost,
		}},
	}
}

func TestWhatTheModelIsSentGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	together(t, journeys(), func(j journey) string { return j.name }, func(t *testing.T, j journey) {
		w := &traveller{scene: newSceneWith(t, hasty(), fakellm.Options{Each: withTool, Aux: fakellm.Text{Text: "What was said before: nothing much."}})}
		for _, step := range j.steps {
			step(w)
		}
		w.stop()
		w.arrived(j.breaks)
	})
}

// withTool is a model that looks with the terminal before it answers.
func withTool(r fakellm.Request) fakellm.Response {
	sent := messagesOf(r)
	if sent[len(sent)-1].Role == "tool" {
		return fakellm.Text{Text: "Seen: " + strings.Repeat(lastUser(r)+" ", 20)}
	}
	return run("echo looked for " + strings.ReplaceAll(lastUser(r), " ", "-"))
}

func (w *traveller) next() string {
	w.n++
	return fmt.Sprintf("message %d", w.n)
}

func byAPI(w *traveller) {
	text := w.next()
	if h := w.hear(w.t.Context(), travelled, text); !strings.Contains(h.text, text) {
		w.t.Fatalf("%s: %q, %q, %v", text, h.text, h.why, h.err)
	}
}

func byCLI(w *traveller) {
	text := w.next()
	out, errs, code := cliIn(w.t, w.t.TempDir(), w.home, "chat", "--session", travelled, text)
	if code != 0 || !strings.Contains(out, text) {
		w.t.Fatalf("%s: code %d, %s%s", text, code, out, errs)
	}
}

func byPost(w *traveller) {
	text := w.next()
	w.handOver(travelled, text, "queue")
	w.until(text+" is answered", func() bool { return countTold(w.rows(travelled), "Seen: "+text) > 0 })
	w.idle()
}

func compress(w *traveller) {
	if words := w.slash(travelled, "/compress here 2").Text; !strings.Contains(words, "ows") {
		w.t.Errorf("/compress said %q", words)
	}
}

// sentBody is what must not change in a request.
type sentBody struct {
	Messages []json.RawMessage
	Tools    json.RawMessage
}

func bodyOf(t *testing.T, r fakellm.Request) sentBody {
	t.Helper()
	var body sentBody
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// arrived looks at all that was sent and at what is stored.
func (w *traveller) arrived(breaks int) {
	w.t.Helper()
	requests := w.model.Main()
	if len(requests) < 10 {
		w.t.Errorf("%d requests", len(requests))
	}
	var broken []string
	for i := 1; i < len(requests); i++ {
		if what := goesOn(bodyOf(w.t, requests[i-1]), bodyOf(w.t, requests[i])); what != "" {
			broken = append(broken, fmt.Sprintf("request %d: %s", i, what))
		}
	}
	if len(broken) != breaks {
		w.t.Errorf("%d breaks, want %d:\n%s", len(broken), breaks, strings.Join(broken, "\n"))
	}
	store := openLeft(w.t, w.home)
	defer store.Close()
	w.asStored(store, requests[len(requests)-1])
	w.paidFor(store)
}

// goesOn says where a request does not begin with the one before it.
func goesOn(before, after sentBody) string {
	if !bytes.Equal(before.Tools, after.Tools) {
		return fmt.Sprintf("other tools: %s and %s", before.Tools, after.Tools)
	}
	for i, m := range before.Messages {
		if i >= len(after.Messages) {
			return fmt.Sprintf("%d messages after %d", len(after.Messages), len(before.Messages))
		}
		if !bytes.Equal(m, after.Messages[i]) {
			return fmt.Sprintf("message %d was %s and is %s", i, m, after.Messages[i])
		}
	}
	return ""
}

// asStored demands that the last request is what the rows give, but for the answer to it.
func (w *traveller) asStored(store *sessiondb.Store, last fakellm.Request) {
	w.t.Helper()
	rows, err := store.Transcript(w.t.Context(), travelled)
	if err != nil {
		w.t.Fatal(err)
	}
	if want, got := sentBy(rows[:len(rows)-1]), withoutSystem(messagesOf(last)); !reflect.DeepEqual(got, want) {
		w.t.Errorf("the last request is not what is stored:\n%+v\n%+v", got, want)
	}
}

// paidFor demands that what is stored as used is what the model said.
func (w *traveller) paidFor(store *sessiondb.Store) {
	w.t.Helper()
	var prompt, completion int64
	for _, r := range w.model.Requests() {
		prompt, completion = prompt+r.Answered.Usage().Prompt, completion+r.Answered.Usage().Completion
	}
	used, err := store.Usage(w.t.Context(), travelled)
	if err != nil || used.Total.Prompt != prompt || used.Total.Completion != completion || prompt == 0 {
		w.t.Errorf("stored as used: %+v, %v; the model said %d and %d", used.Total, err, prompt, completion)
	}
}

// sentBy is what rows give when they are replayed.
func sentBy(rows []sessiondb.Message) (out []chamber.Sent) {
	for _, m := range gateway.Replay(rows) {
		s := chamber.Sent{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			call := chamber.SentCall{ID: c.ID}
			call.Function.Name, call.Function.Arguments = c.Name, c.Arguments
			s.ToolCalls = append(s.ToolCalls, call)
		}
		out = append(out, s)
	}
	return out
}

func withoutSystem(sent []chamber.Sent) []chamber.Sent {
	if len(sent) > 0 && sent[0].Role == "system" {
		return sent[1:]
	}
	return sent
}
