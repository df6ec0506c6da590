package gateway

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// prompts is what the store has counted so far.
func prompts(t *testing.T, s *spy) int64 {
	t.Helper()
	usage, err := s.Usage(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	return usage.Total.Prompt
}

// counts are the writes that counted something without a row.
func counts(s *spy) (out []string) {
	for _, e := range s.events() {
		if strings.HasPrefix(e, "counted") {
			out = append(out, e)
		}
	}
	return out
}

func TestWhatAnAnswerCostIsStoredWithItsRow(t *testing.T) {
	h := newHouse(t, with(echo("work")), fakellm.ToolCall{Name: "work", Usage: fakellm.Usage{Prompt: 100}},
		fakellm.Text{Text: "one", Usage: fakellm.Usage{Prompt: 130}})
	var seen []int64
	h.spy.after = func(rows []sessiondb.Message) {
		if len(rows) > 0 && rows[0].Role == roleAssistant {
			seen = append(seen, prompts(t, h.spy))
		}
	}
	h.say(Say{Text: "go"})
	if beside := counts(h.spy); !slices.Equal(seen, []int64{100, 230}) || len(beside) > 0 {
		t.Errorf("counted with the rows: %v; beside them: %v", seen, beside)
	}
}

func TestAnAnswerWithoutARowIsCountedToo(t *testing.T) {
	t.Run("empty", func(t *testing.T) {
		h := newHouse(t, with(), fakellm.Text{Usage: fakellm.Usage{Prompt: 100}}, fakellm.Text{Text: "one", Usage: fakellm.Usage{Prompt: 130}})
		h.say(Say{Text: "go"})
		if beside := counts(h.spy); prompts(t, h.spy) != 230 || !slices.Equal(beside, []string{"counted 100"}) {
			t.Errorf("%d; beside rows: %v", prompts(t, h.spy), beside)
		}
	})
	t.Run("not stored", func(t *testing.T) {
		h := newHouse(t, with(), fakellm.Text{Text: "one", Usage: fakellm.Usage{Prompt: 130}})
		h.spy.refuse = func(rows []sessiondb.NewMessage) error {
			if rows[0].Role == roleAssistant {
				return errors.New("no room")
			}
			return nil
		}
		if r := h.say(Say{Text: "go"}); r.Completed || prompts(t, h.spy) != 130 {
			t.Errorf("%+v; counted %d", r, prompts(t, h.spy))
		}
	})
}
