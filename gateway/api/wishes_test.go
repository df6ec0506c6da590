package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// What a client asks of an answer reaches the turn, and what no server takes is refused by the field's name before anything is stored.
func TestWhatAClientAsksOfAnAnswerReachesTheTurn(t *testing.T) {
	h, chat := plain(nil)
	body := `{"temperature":0.5,"top_p":0.9,"max_tokens":50,"max_completion_tokens":40,"stop":"END","seed":7,"messages":[{"role":"user","content":"x"}]}`
	if w := ask(h, "POST", chatPath, body); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w := chat.last().Wishes
	if got := fmt.Sprint(*w.Temperature, *w.TopP, w.MaxTokens, w.Stop, *w.Seed); got != "0.5 0.9 40 [END] 7" {
		t.Errorf("the turn is asked for %s", got)
	}
	said := len(chat.said)
	for field, value := range map[string]string{
		"temperature": "2.5", "top_p": "-1", "max_tokens": "0", "max_completion_tokens": "-3", "stop": `["a","b","c","d","e"]`, "seed": `"x"`,
	} {
		w := ask(h, "POST", chatPath, fmt.Sprintf(`{%q:%s,"messages":[{"role":"user","content":"x"}]}`, field, value))
		code := "invalid_value"
		if field == "seed" {
			code = "invalid_type"
		}
		if inner := refused(t, w, http.StatusBadRequest, code); inner["param"] != field {
			t.Errorf("%s: %v", field, inner)
		}
	}
	if len(chat.said) != said {
		t.Error("a refused request was heard by the gateway")
	}
}

// What a client asks of the answers of a response or a run reaches the model as it does from a chat, a response repeats it, and one that
// reaches its bound is incomplete, also when a run made it.
func TestWhatAClientAsksOfAResponseOrARunReachesTheModel(t *testing.T) {
	cut := fakellm.Text{Text: "cut off", FinishReason: "length"}
	h := newHouse(t, nil, cut, cut, fakellm.Text{Text: "whole"})
	const rest = `"temperature":0.5,"top_p":0.9,"stop":["END"],"seed":7}`
	whole := h.respond(t, `{"input":"x","max_output_tokens":40,`+rest)
	later := h.respond(t, `{"input":"x","background":true,"max_output_tokens":40,`+rest)
	h.until(t, "the response has ended", func() bool {
		later, _ = h.get(t, "/v1/responses/"+later["id"].(string))
		return later["status"] != "queued" && later["status"] != "in_progress"
	})
	for _, body := range []map[string]any{whole, later} {
		if got := fmt.Sprint(body["status"], body["temperature"], body["top_p"], body["max_output_tokens"], body["incomplete_details"]); got != "incomplete0.5 0.9 40 map[reason:max_output_tokens]" {
			t.Errorf("the response says %s", got)
		}
	}
	run, _ := h.begin(t, `{"input":"x","max_tokens":40,`+rest)
	h.awaitStatus(t, run, "completed")
	for i, asked := range h.llm.Requests() {
		body := asked.JSON()
		if got := fmt.Sprint(body["temperature"], body["top_p"], body["max_tokens"], body["stop"], body["seed"]); got != "0.5 0.9 40 [END] 7" {
			t.Errorf("request %d asks for %s", i, got)
		}
	}
	for path, field := range map[string]string{"/v1/responses": "max_output_tokens", "/v1/runs": "max_tokens"} {
		if got := h.must(t, path, "bad"+field, fmt.Sprintf(`{"input":"x",%q:0}`, field)); got.status != http.StatusBadRequest || !strings.Contains(got.body, field) {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if n := len(h.llm.Requests()); n != 3 {
		t.Errorf("the model was asked %d times", n)
	}
}
