package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
)

// loud answers each call with a result of its own of some 750 tokens.
func loud(o *Options) {
	n := 0
	o.Tools = tools(fake{name: "look", readOnly: true, run: func(context.Context, tool.Call) tool.Result {
		n++
		return tool.Result{Content: fmt.Sprintf("result %d: %s", n, strings.Repeat("line ", 600)), Effect: tool.EffectNone}
	}})
}

// rounds asks for a tool so many times and then answers.
func rounds(f *foldHouse, most int) {
	n := 0
	f.answers("ask", func(fakellm.Request) fakellm.Response {
		if n++; n > most {
			return fakellm.Text{Text: "done"}
		}
		return fakellm.ToolCall{Name: "look", Args: map[string]int{"n": n}}
	})
}

// One turn may be longer than the window: it is folded between its rounds, never inside one, and what was asked of it stays before the
// model's eyes, once.
func TestATurnLongerThanTheWindowGoesOn(t *testing.T) {
	for name, ask := range map[string][]string{"the first": nil, "a later one": {"TA1Q please", "TA2Q please"}} {
		t.Run(name, func(t *testing.T) {
			f := newFoldHouse(t, 6000, loud)
			for _, text := range ask {
				f.say(Say{Text: text})
			}
			rounds(f, 20)
			questions := len(ask) + 1
			r := f.ask1(questions)
			if !r.Completed || r.Text != "done" {
				t.Fatalf("%+v", r)
			}
			if n := f.auxes(); n < 2 || n > 5 {
				t.Errorf("%d summaries", n)
			}
			f.books(questions)
			for _, q := range f.llm.Main() {
				if size := len(q.Body) / 4; size > 6000 {
					t.Errorf("request %d has about %d tokens", q.N, size)
				}
			}
			last := f.llm.Main()
			body := string(last[len(last)-1].Body)
			for n := 1; n <= questions; n++ {
				if got := strings.Count(body, fmt.Sprintf("TA%dQ", n)); got != 1 {
					t.Errorf("the last request carries question %d %dx", n, got)
				}
			}
			if n, folds := f.prefixBreaks(), f.auxes(); n != folds {
				t.Errorf("%d summaries broke the prefix %d times", folds, n)
			}
		})
	}
}

// Where the settings ask for it, big old results become one line each, and no model is asked.
func TestBigOldResultsArePrunedWithoutAModel(t *testing.T) {
	f := newFoldHouse(t, 60_000, func(o *Options) {
		loud(o)
		o.Compaction.Rules.PruneTokens, o.Compaction.Rules.PruneMinChars, o.Compaction.Rules.PruneMinReclaim = 9000, 1000, 500
	})
	rounds(f, 16)
	if r := f.ask1(1); r.Text != "done" {
		t.Fatalf("%+v", r)
	}
	f.answers("ask", nil)
	f.ask1(2)
	if f.auxes() != 0 || !strings.Contains(shape(f.rows("s1")), "tool/model_only") {
		t.Errorf("%d summaries: %s", f.auxes(), shape(f.rows("s1")))
	}
	f.books(2)
}
