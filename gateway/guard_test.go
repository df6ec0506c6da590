package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/vigil"
)

func TestACallThatGoesInCirclesIsWarnedAboutAndStopsTheTurnWhereThatIsAsked(t *testing.T) {
	fails := fake{name: "work", run: func(context.Context, tool.Call) tool.Result {
		return tool.Result{Content: "no such file", Err: true, Effect: tool.EffectNone}
	}}
	reads := fake{name: "work", readOnly: true, run: func(context.Context, tool.Call) tool.Result {
		return tool.Result{Content: "as before", Effect: tool.EffectNone}
	}}
	changes := fake{name: "work", run: func(context.Context, tool.Call) tool.Result {
		return tool.Result{Content: "ok", Effect: tool.EffectDone}
	}}
	for name, c := range map[string]struct {
		work   fake
		hard   bool
		warned int // results with a warning, of seven
		exit   string
	}{
		"fails":            {fails, false, 3, "text_response"},
		"reads the same":   {reads, false, 3, "text_response"},
		"has an effect":    {changes, false, 0, "text_response"},
		"fails, hard stop": {fails, true, 1, "guardrail_halt"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, func(o *Options) { o.Tools, o.LoopHardStop = tools(c.work), c.hard })
			for range 7 {
				h.llm.Push(fakellm.ToolCall{Name: "work", Args: `{"a":1}`})
			}
			h.llm.Push(fakellm.Text{Text: "I give up"})
			r := h.say(Say{Text: "go"})
			warned := 0
			for _, row := range h.rows("s1") {
				if row.Role == roleTool && strings.Contains(row.Content, "[warning: ") {
					warned++
				}
			}
			if warned != c.warned || r.ExitReason != c.exit || r.Text == "" {
				t.Errorf("%d warnings, %+v", warned, r)
			}
			assertWhole(t, h.rows("s1"))
		})
	}
}

func TestACallThatWasCutOffIsSaidToBeTruncatedAndNeverRun(t *testing.T) {
	var ran atomic.Int64
	work := fake{name: "work", run: func(context.Context, tool.Call) tool.Result {
		ran.Add(1)
		return tool.Result{Content: "ran", Effect: tool.EffectDone}
	}}
	h := newHouse(t, with(work), fakellm.Raw{Body: cutCall}, fakellm.Text{Text: "sorry"})
	r := h.say(Say{Text: "go"})
	rows := h.rows("s1")
	stored := []string{"user assistant+2 tool/failed tool assistant", "user assistant+2 tool tool/failed assistant"} // each as it came
	if !r.Completed || !slices.Contains(stored, shape(rows)) || ran.Load() != 1 {
		t.Fatalf("ran %d, %+v, %s", ran.Load(), r, shape(rows))
	}
	byID := results(rows[2:])
	if !strings.Contains(byID["b"].Content, "truncated") || byID["a"].Content != "ran" || byID["b"].Effect != "none" {
		t.Errorf("%q, %q", byID["a"].Content, byID["b"].Content)
	}
}

// cutCall is an answer that reached its length limit in the middle of its second call.
const cutCall = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"work","arguments":"{\"x\":1}"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"work","arguments":"{\"x\":\"rm -"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}

data: [DONE]

`

func TestAnAnswerThatReachedItsLengthLimitIsContinuedAndStoredWhole(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one, two, ", FinishReason: "length"}, fakellm.Text{Text: "three"})
	r := h.say(Say{Text: "count"})
	rows := h.rows("s1")
	if r.Text != "one, two, three" || r.FinishReason != "stop" || r.Calls != 2 || shape(rows) != "user assistant" || rows[1].Content != r.Text {
		t.Errorf("%+v, %s", r, shape(rows))
	}
	for range lengthMost + 1 {
		h.llm.Push(fakellm.Text{Text: "x", FinishReason: "length"})
	}
	if r := h.say(Say{Text: "for ever"}); r.Text != strings.Repeat("x", lengthMost+1) || r.FinishReason != "length" || !r.Completed {
		t.Errorf("%+v", r)
	}
	h.llm.Push(fakellm.Text{Text: "ok"})
	h.say(Say{Text: "next"})
	requests := h.llm.Requests()
	if last := string(requests[len(requests)-1].Body); strings.Contains(last, "length limit") {
		t.Errorf("scaffolding was stored: %s", last)
	}
}

func TestAnEmptyAnswerAfterAToolSaysThatTheResultIsPending(t *testing.T) {
	h := newHouse(t, with(echo("work")), fakellm.ToolCall{Name: "work"}, fakellm.Text{}, fakellm.Text{}, fakellm.Text{})
	r := h.say(Say{Text: "go"})
	if r.ExitReason != "pending_tool_result" || !r.Failed || shape(h.rows("s1")) != "user assistant+1 tool assistant/closing" || r.Calls != 4 {
		t.Errorf("%+v, %s", r, shape(h.rows("s1")))
	}
	if body := string(h.llm.Requests()[2].Body); !strings.Contains(body, "last answer was empty") {
		t.Errorf("no nudge in %s", body)
	}
}

func TestCallsOfOneAnswerHaveADeadlineTogether(t *testing.T) {
	hang := fake{name: "hang", run: func(ctx context.Context, _ tool.Call) tool.Result {
		<-ctx.Done()
		return tool.Result{Content: "stopped: " + context.Cause(ctx).Error(), Err: true, Effect: tool.EffectUnknown, Interrupted: true}
	}}
	h := newHouse(t, func(o *Options) { o.Tools, o.BatchTimeout = tools(hang, echo("work")), 50*time.Millisecond },
		fakellm.ToolCall{Name: "hang", Parallel: []fakellm.ToolCall{{Name: "work"}}}, fakellm.Text{Text: "it hung"})
	r := h.say(Say{Text: "go"})
	rows := h.rows("s1")
	hung := false
	for _, row := range rows {
		hung = hung || strings.Contains(row.Content, "may take 50ms together")
	}
	if !hung || !r.Completed || r.Text != "it hung" {
		t.Errorf("%+v, %q", r, words(rows))
	}
	assertWhole(t, rows)
}

// destroyer is a tool whose calls take something away.
type destroyer struct{ fake }

func (destroyer) Class(json.RawMessage) tool.Class { return tool.ClassDestructive }

func TestDestructiveCallsOfOneAnswerRunOneAfterTheOther(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		now += by
		most = max(most, now)
	}
	wipe := fake{name: "wipe", run: func(ctx context.Context, _ tool.Call) tool.Result {
		count(1)
		defer count(-1)
		vigil.LetPass(5*time.Millisecond, "the others would begin meanwhile")
		return tool.Result{Content: "gone", Effect: tool.EffectDone}
	}}
	first := fakellm.ToolCall{Name: "wipe", Args: `{"n":0}`}
	for i := 1; i < 6; i++ {
		first.Parallel = append(first.Parallel, fakellm.ToolCall{Name: "wipe", Args: fmt.Sprintf(`{"n":%d}`, i)})
	}
	h := newHouse(t, with(destroyer{wipe}), first, fakellm.Text{Text: "done"})
	h.say(Say{Text: "go"})
	if most != 1 {
		t.Errorf("%d at a time", most)
	}
}
