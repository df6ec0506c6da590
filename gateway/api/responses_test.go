package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// respond asks for a response and gives it.
func (h *house) respond(t *testing.T, body string) map[string]any {
	t.Helper()
	status, got := h.post(t, http.MethodPost, "/v1/responses", body)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %v", body, status, got)
	}
	return got
}

// lastOf is the last message of a role that a request carries.
func lastOf(r fakellm.Request, role string) (text string) {
	list, _ := r.JSON()["messages"].([]any)
	for _, one := range list {
		if m, _ := one.(map[string]any); m["role"] == role {
			text, _ = m["content"].(string)
		}
	}
	return text
}

func outputText(r map[string]any) (text string) {
	for _, item := range r["output"].([]any) {
		if one := item.(map[string]any); one["type"] == "message" {
			text += one["content"].([]any)[0].(map[string]any)["text"].(string)
		}
	}
	return text
}

func sessionOf(r map[string]any) string {
	return r["gatewayd"].(map[string]any)["session"].(string)
}

// A response is what was answered, and is the same when it is asked for again.
func TestAResponseIsAnsweredAndKept(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "good morning"})
	got := h.respond(t, `{"model":"gpt-5","input":"hello","instructions":"be kind","metadata":{"a":"b"}}`)
	usage := got["usage"].(map[string]any)
	if got["status"] != "completed" || outputText(got) != "good morning" || got["model"] != "gpt-5" || usage["total_tokens"] != 15.0 || got["gatewayd"].(map[string]any)["receipt"] == nil {
		t.Errorf("%v", got)
	}
	id := got["id"].(string)
	_, again := h.post(t, http.MethodGet, "/v1/responses/"+id, "")
	if outputText(again) != "good morning" || again["status"] != "completed" || again["instructions"] != "be kind" || fmt.Sprint(again["metadata"]) != "map[a:b]" {
		t.Errorf("%v", again)
	}
	_, input := h.post(t, http.MethodGet, "/v1/responses/"+id+"/input_items", "")
	if !strings.Contains(fmt.Sprint(input), "input_text") || input["has_more"] != false {
		t.Errorf("%v", input)
	}
	if system := lastOf(h.llm.Requests()[0], "system"); !strings.HasSuffix(system, "be kind") {
		t.Errorf("system: %q", system)
	}
	if status, gone := h.post(t, http.MethodDelete, "/v1/responses/"+id, ""); status != http.StatusOK || gone["deleted"] != true {
		t.Errorf("%d %v", status, gone)
	}
	if status, _ := h.post(t, http.MethodGet, "/v1/responses/"+id, ""); status != http.StatusNotFound {
		t.Errorf("deleted: %d", status)
	}
}

// Fifty responses, each after the one before, are one conversation; two after one of them are two that never meet.
func TestResponsesGoOnFromEachOther(t *testing.T) {
	echo := make([]fakellm.Response, 53)
	for i := range echo {
		echo[i] = fakellm.Func(func(r fakellm.Request) fakellm.Response { return fakellm.Text{Text: "to " + lastOf(r, "user")} })
	}
	h := newHouse(t, nil, echo...)
	previous, sessions := "", map[string]bool{}
	var tenth map[string]any
	for i := range 50 {
		body := fmt.Sprintf(`{"input":"n%d"}`, i)
		if previous != "" {
			body = fmt.Sprintf(`{"input":"n%d","previous_response_id":%q}`, i, previous)
		}
		got := h.respond(t, body)
		if outputText(got) != fmt.Sprintf("to n%d", i) {
			t.Fatalf("%d: %v", i, got)
		}
		previous = got["id"].(string)
		sessions[sessionOf(got)] = true
		if i == 10 {
			tenth = got
		}
	}
	if len(sessions) != 1 {
		t.Fatalf("%d sessions", len(sessions))
	}
	branch := h.respond(t, fmt.Sprintf(`{"input":"aside","previous_response_id":%q}`, tenth["id"]))
	if sessions[sessionOf(branch)] {
		t.Fatal("a branch went into the session of the others")
	}
	want := ""
	for i := range 11 {
		want += fmt.Sprintf("user:n%d|assistant:to n%d|", i, i)
	}
	if rows := h.rows(t, sessionOf(branch)); rows != want+"user:aside|assistant:to aside|" {
		t.Errorf("the branch: %s", rows)
	}
	for one := range sessions {
		if rows := h.rows(t, one); strings.Contains(rows, "aside") || strings.Count(rows, "user:") != 50 {
			t.Errorf("the others: %s", rows)
		}
	}
	onward := h.respond(t, fmt.Sprintf(`{"input":"more","previous_response_id":%q}`, branch["id"]))
	if sessionOf(onward) != sessionOf(branch) {
		t.Error("the branch does not go on in its own session")
	}
	other := h.respond(t, fmt.Sprintf(`{"input":"else","previous_response_id":%q,"instructions":"be brief"}`, onward["id"]))
	last := h.llm.Requests()
	if sessionOf(other) == sessionOf(onward) || !strings.HasSuffix(lastOf(last[len(last)-1], "system"), "be brief") {
		t.Error("other instructions are no branch of their own")
	}
}

// What a client may get wrong is told with the field's name, and nothing of it stays.
func TestAResponseThatCannotBeMadeLeavesNothing(t *testing.T) {
	h := newHouse(t, nil)
	for _, c := range []struct {
		body, param string
		status      int
	}{
		{`{}`, "input", 400},
		{`{"input":""}`, "input", 400},
		{`{"input":"x","previous_response_id":"a","conversation":"b"}`, "previous_response_id", 400},
		{`{"input":"x","previous_response_id":"resp_nobody"}`, "", 404},
		{`{"input":[{"type":"item_reference","id":"x"}]}`, "input[0].type", 400},
		{`{"input":[{"role":"assistant","content":"x"}]}`, "input", 400},
		{`{"input":[{"role":"king","content":"x"}]}`, "input[0].role", 400},
		{`{"input":"x","truncation":"middle"}`, "truncation", 400},
		{`{"input":"x","background":true,"store":false}`, "background", 400},
		{`{"input":"x","text":{"format":{"type":"json_schema"}}}`, "text.format.type", 400},
		{`{"input":"x","metadata":{"a":1}}`, "metadata.a", 400},
		{`{"input":"x","store":"yes"}`, "store", 400},
	} {
		status, got := h.post(t, http.MethodPost, "/v1/responses", c.body)
		inner, _ := got["error"].(map[string]any)
		param, _ := inner["param"].(string)
		if status != c.status || param != c.param {
			t.Errorf("%s: %d %v", c.body, status, got)
		}
	}
	if list, err := h.store.Sessions(t.Context(), sessiondb.ListFilter{IncludeHidden: true}); err != nil || len(list) != 0 {
		t.Errorf("%d sessions remain: %v", len(list), err)
	}
}

// The history that a client tells is the conversation; with store false nobody can name the answer.
func TestAHistoryIsTakenAndAnUnstoredAnswerIsNotKept(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "fine"})
	got := h.respond(t, `{"store":false,"input":[{"role":"developer","content":"d"},{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"output_text","text":"b"}]},
 {"type":"function_call","call_id":"c1","name":"look","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"seen"},{"role":"user","content":[{"type":"input_text","text":"e"}]}]}`)
	if rows := h.rows(t, sessionOf(got)); rows != "user:a|assistant:b|tool:seen|assistant:[no answer was recorded]|user:e|assistant:fine|" {
		t.Errorf("rows: %s", rows)
	}
	if status, _ := h.post(t, http.MethodGet, "/v1/responses/"+got["id"].(string), ""); status != http.StatusNotFound {
		t.Errorf("it is kept: %d", status)
	}
	if list, err := h.store.Sessions(t.Context(), sessiondb.ListFilter{}); err != nil || len(list) != 0 {
		t.Errorf("it is listed: %v %v", list, err)
	}
}

// A name keeps one conversation for its key.
func TestAConversationGoesOnUnderItsName(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"})
	first := h.respond(t, `{"input":"a","conversation":"mine"}`)
	second := h.respond(t, `{"input":"b","conversation":{"id":"mine"}}`)
	if rows := h.rows(t, sessionOf(second)); sessionOf(first) != sessionOf(second) || rows != "user:a|assistant:one|user:b|assistant:two|" {
		t.Errorf("rows: %s", rows)
	}
	if fmt.Sprint(second["conversation"]) != "map[id:mine]" {
		t.Errorf("%v", second["conversation"])
	}
}

// A stream tells the response piece by piece, with numbers that grow from 0 by one, and ends with the whole of it.
func TestAResponseIsStreamedInNumberedSteps(t *testing.T) {
	h := newHouse(t, nil, fakellm.ToolCall{Name: "nothing", Args: "{}", Text: "Looking."}, fakellm.Text{Text: "bit by bit by bit"})
	w := h.open(t, bounded(t), http.MethodPost, "/v1/responses", `{"input":"hello","stream":true}`)
	reader := bufio.NewReader(w.Body)
	var steps []string
	text := ""
	var last map[string]any
	for n := 0; ; n++ {
		e, more := nextHeard(t, reader)
		if !more {
			break
		}
		if e.data["sequence_number"] != float64(n) || e.data["type"] != e.name {
			t.Fatalf("step %d: %v", n, e)
		}
		if delta, is := e.data["delta"].(string); is && e.name == "response.output_text.delta" {
			text += delta
		}
		if len(steps) == 0 || steps[len(steps)-1] != strings.TrimPrefix(e.name, "response.") {
			steps = append(steps, strings.TrimPrefix(e.name, "response."))
		}
		last = e.data
	}
	if !strings.HasPrefix(strings.Join(steps, " "), "created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done output_item.added") ||
		steps[len(steps)-1] != "completed" {
		t.Errorf("steps: %v", steps)
	}
	response := last["response"].(map[string]any)
	if !strings.HasSuffix(text, "bit by bit by bit") || outputText(response) != text {
		t.Errorf("said %q, ended with %v", text, response["output"])
	}
	_, kept := h.post(t, http.MethodGet, "/v1/responses/"+response["id"].(string), "")
	if fmt.Sprint(kept["output"]) != fmt.Sprint(response["output"]) {
		t.Errorf("kept: %v", kept["output"])
	}
}

// A client that leaves ends the turn, and what there was of the response is kept as incomplete.
func TestAResponseWhoseClientLeavesIsKeptIncomplete(t *testing.T) {
	gate := make(chan struct{}, 100)
	h := newHouse(t, nil, fakellm.Text{Text: strings.Repeat("word ", 40), Gate: gate})
	ctx, leave := context.WithCancel(bounded(t))
	w := h.open(t, ctx, http.MethodPost, "/v1/responses", `{"input":"hello","stream":true}`)
	id := w.Header.Get(headerResponse)
	gate <- struct{}{}
	reader := bufio.NewReader(w.Body)
	for {
		if e, more := nextHeard(t, reader); !more || e.name == "response.output_text.delta" {
			break
		}
	}
	leave()
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, got := h.post(t, http.MethodGet, "/v1/responses/"+id, "")
		if got["status"] == "incomplete" {
			if !strings.HasPrefix(outputText(got), "word") || got["incomplete_details"] == nil {
				t.Errorf("%v", got)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %v", got)
		}
	}
}

// In the background a response is a run: it can be asked for, followed and cancelled.
func TestAResponseInTheBackgroundIsARun(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "done"}, fakellm.Hang{})
	got := h.respond(t, `{"input":"hello","background":true}`)
	run := got["gatewayd"].(map[string]any)["run"].(string)
	if got["status"] != "queued" {
		t.Errorf("%v", got)
	}
	h.runEvents(t, run, "")
	_, ended := h.post(t, http.MethodGet, "/v1/responses/"+got["id"].(string), "")
	if ended["status"] != "completed" || outputText(ended) != "done" || ended["usage"] == nil {
		t.Errorf("%v", ended)
	}
	onward := h.respond(t, fmt.Sprintf(`{"input":"more","background":true,"previous_response_id":%q}`, got["id"]))
	if status, got := h.post(t, http.MethodPost, "/v1/responses/"+onward["id"].(string)+"/cancel", ""); status != http.StatusOK {
		t.Errorf("%d %v", status, got)
	}
	h.runEvents(t, onward["gatewayd"].(map[string]any)["run"].(string), "")
	if _, got := h.post(t, http.MethodGet, "/v1/responses/"+onward["id"].(string), ""); got["status"] != "cancelled" || sessionOf(got) != sessionOf(ended) {
		t.Errorf("%v", got)
	}
}

// runEvents reads a run's events behind an id, to the end.
func (h *house) runEvents(t *testing.T, run, after string) (list []heard) {
	t.Helper()
	r, err := http.NewRequestWithContext(bounded(t), http.MethodGet, h.URL+"/v1/runs/"+run+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	w, err := h.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	reader := bufio.NewReader(w.Body)
	for {
		e, more := nextHeard(t, reader)
		if !more {
			return list
		}
		list = append(list, e)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
