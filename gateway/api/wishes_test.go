package api

import (
	"fmt"
	"net/http"
	"testing"
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
