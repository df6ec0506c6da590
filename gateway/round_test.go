package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
)

func TestParallelCallsKeepTheirIds(t *testing.T) {
	var gates [8]chan struct{}
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	close(gates[7])
	// Each call waits for the one after it, so they end in the reverse of the order in which they were asked.
	chain := fake{name: "chain", run: func(ctx context.Context, call tool.Call) tool.Result {
		var a struct{ N int }
		_ = json.Unmarshal(call.Args, &a)
		select {
		case <-gates[a.N]:
		case <-ctx.Done():
		}
		if a.N > 0 {
			close(gates[a.N-1])
		}
		return tool.Result{Content: fmt.Sprintf("token %d", a.N), Effect: tool.EffectDone}
	}}
	first := fakellm.ToolCall{Name: "chain", Args: map[string]any{"n": 0}}
	for i := 1; i < 8; i++ {
		first.Parallel = append(first.Parallel, fakellm.ToolCall{Name: "chain", Args: map[string]any{"n": i}})
	}
	h := newHouse(t, with(chain), first, fakellm.Text{Text: "done"})
	h.say(Say{Text: "go"})
	want := map[string]string{}
	for i, call := range storedCalls(h.rows("s1")[1]) {
		want[call.ID] = fmt.Sprintf("token %d", i)
	}
	for _, row := range h.rows("s1") {
		if row.Role == roleTool && row.Content != want[row.ToolCallID] {
			t.Errorf("row of %s says %q, want %q", row.ToolCallID, row.Content, want[row.ToolCallID])
		}
	}
	sent := sentMessages(t, h.llm.Requests()[1])
	for i, raw := range sent[len(sent)-8:] {
		var m struct {
			ID      string `json:"tool_call_id"`
			Content string
		}
		if err := json.Unmarshal(raw, &m); err != nil || m.Content != fmt.Sprintf("token %d", i) || want[m.ID] != m.Content {
			t.Errorf("sent %s", raw)
		}
	}
}

func TestCallsThatCannotRunAreAnsweredAndNeverRun(t *testing.T) {
	for name, c := range map[string]struct {
		call fakellm.ToolCall
		says string
	}{
		"truncated":    {fakellm.ToolCall{Name: "work", Args: `{"command":"rm -r`}, "not a JSON object"},
		"garbage":      {fakellm.ToolCall{Name: "work", Args: `<|call|>`}, "not a JSON object"},
		"not object":   {fakellm.ToolCall{Name: "work", Args: `[1]`}, "not a JSON object"},
		"unknown name": {fakellm.ToolCall{Name: "wrok", Args: `{}`}, "the tools are: work"},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			work := fake{name: "work", run: func(context.Context, tool.Call) tool.Result { ran = true; return tool.Result{} }}
			h := newHouse(t, with(work), c.call, fakellm.Text{Text: "sorry"})
			r := h.say(Say{Text: "go"})
			rows := h.rows("s1")
			if ran || !r.Completed || shape(rows) != "user assistant+1 tool/failed assistant" || !strings.Contains(rows[2].Content, c.says) || rows[2].Effect != "none" {
				t.Errorf("ran %v, %+v\n%s: %q", ran, r, shape(rows), rows[2].Content)
			}
			if body := h.llm.Requests()[1].Body; !json.Valid(body) || strings.Contains(string(body), `"arguments":"{\"command`) {
				t.Errorf("sent again: %s", body)
			}
		})
	}
}

func TestAMixedBatchRunsItsGoodCalls(t *testing.T) {
	h := newHouse(t, with(echo("work")), fakellm.ToolCall{Name: "work", Args: `{"a":1}`, Parallel: []fakellm.ToolCall{
		{Name: "nope", Args: `{}`}, {Name: "work", Args: `{"a":`}, {Name: "work", Args: `{"a":2}`},
	}}, fakellm.Text{Text: "done"})
	h.say(Say{Text: "go"})
	rows := h.rows("s1")
	byID := results(rows[2:])
	var got []string
	for _, call := range storedCalls(rows[1]) {
		got = append(got, fmt.Sprintf("%.14s", byID[call.ID].Content))
	}
	if want := `echo {"a":1}|error: there is|error: the argu|echo {"a":2}`; strings.ReplaceAll(strings.Join(got, "|"), "\n", "") != strings.Join([]string{
		`echo {"a":1}`, `error: there i`, `error: the arg`, `echo {"a":2}`,
	}, "|") {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestIdenticalCallsOfOneAnswerRunOnce(t *testing.T) {
	var runs atomic.Int64
	count := fake{name: "count", run: func(context.Context, tool.Call) tool.Result {
		return tool.Result{Content: fmt.Sprintf("run %d", runs.Add(1)), Effect: tool.EffectDone}
	}}
	same := fakellm.ToolCall{Name: "count", Args: `{"a":1}`}
	h := newHouse(t, with(count), fakellm.ToolCall{Name: "count", Args: `{"a":1}`, Parallel: []fakellm.ToolCall{same, same}}, fakellm.Text{Text: "done"})
	h.say(Say{Text: "go"})
	rows := h.rows("s1")
	if runs.Load() != 1 || shape(rows) != "user assistant+3 tool tool tool assistant" {
		t.Errorf("%d runs, %s", runs.Load(), shape(rows))
	}
	assertWhole(t, rows)
}

func TestTheBudgetEndsATurnVisibly(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Tools, o.MaxIterations = tools(echo("work")), 3 })
	for range 4 { // three steps and the grace call, in which it still asks for a tool
		h.llm.Push(fakellm.ToolCall{Name: "work"})
	}
	h.llm.Push(fakellm.Text{Text: "half of it is done"})
	r := h.say(Say{Text: "go"})
	if !r.Failed || r.ExitReason != "max_iterations_reached(3/3)" || r.Calls != 5 || !strings.Contains(r.Text, "3 steps") || !strings.HasPrefix(r.Text, "half of it is done") {
		t.Errorf("%+v", r)
	}
	if n := strings.Count(shape(h.rows("s1")), "assistant+1"); n != 3 {
		t.Errorf("%d rounds are stored", n)
	}
	if kind := h.llm.Requests()[4].Kind; kind != "aux" {
		t.Errorf("the summary was asked for with tools: %s", kind)
	}
	for _, row := range h.rows("s1") {
		if strings.Contains(row.Content, "steps of this turn are used up") {
			t.Errorf("scaffolding was stored: %q", row.Content)
		}
	}
	assertWhole(t, h.rows("s1"))
	h.llm.Push(fakellm.Text{Text: "more"})
	if r := h.say(Say{Text: "go on"}); r.Text != "more" {
		t.Errorf("%+v", r)
	}
}

func TestAModelThatOnlyMakesUnusableCallsIsStopped(t *testing.T) {
	h := newHouse(t, with(echo("work")))
	for range 10 {
		h.llm.Push(fakellm.ToolCall{Name: "nope"})
	}
	r := h.say(Say{Text: "go"})
	if !r.Failed || r.ExitReason != "invalid_tool_calls" || r.Calls != invalidMax {
		t.Errorf("%+v", r)
	}
	assertWhole(t, h.rows("s1"))
}

func TestAnEmptyAnswerEndsVisibly(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{}, fakellm.Text{Text: " \n"}, fakellm.Text{})
	r := h.say(Say{Text: "go"})
	if !r.Failed || r.FinishReason != finishEmpty || r.Calls != 3 || shape(h.rows("s1")) != "user assistant/closing" {
		t.Errorf("%+v, %s", r, shape(h.rows("s1")))
	}
	h2 := newHouse(t, nil, fakellm.Text{}, fakellm.Text{Text: "there"})
	if r := h2.say(Say{Text: "go"}); !r.Completed || r.Text != "there" || shape(h2.rows("s1")) != "user assistant" {
		t.Errorf("%+v", r)
	}
}

func TestAProviderErrorEndsInWordsAndARow(t *testing.T) {
	h := newHouse(t, nil, fakellm.Error{Status: 401, Message: "Incorrect API key"}, fakellm.Text{Text: "now"})
	r := h.say(Say{Text: "go"})
	rows := h.rows("s1")
	if !r.Failed || r.Error == nil || r.Class != "auth" || r.Retryable || shape(rows) != "user assistant/closing" || rows[1].Content != r.Text ||
		!strings.HasPrefix(r.Text, "[The model could not answer: ") {
		t.Errorf("%+v, %s", r, shape(rows))
	}
	if r := h.say(Say{Text: "again"}); r.Text != "now" {
		t.Errorf("%+v", r)
	}
	assertWhole(t, h.rows("s1"))
}

func TestTextThatWasShownBeforeTheStreamBrokeIsKept(t *testing.T) {
	h := newHouse(t, nil, fakellm.DropMidStream{Text: "one two three four", After: 1}, fakellm.Text{Text: "the rest"})
	var shown strings.Builder
	r, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "go"}, func(e Event) {
		if e.Kind == EventDelta {
			shown.WriteString(e.Text)
		}
	})
	if err != nil || !r.Completed || r.Text != "one two the rest" || shown.String() != r.Text {
		t.Errorf("%+v, %v, shown %q", r, err, shown.String())
	}
	if rows := h.rows("s1"); shape(rows) != "user assistant" || rows[1].Content != r.Text {
		t.Errorf("%s", shape(rows))
	}
	h.llm.Push(fakellm.Text{Text: "x"})
	h.say(Say{Text: "next"})
	if last := h.llm.Requests()[2].Body; strings.Contains(string(last), "connection broke") {
		t.Errorf("scaffolding was stored: %s", last)
	}
}

func TestUsageIsAddedExactly(t *testing.T) {
	h := newHouse(t, with(echo("work")), fakellm.ToolCall{Name: "work", Usage: fakellm.Usage{Prompt: 100, Completion: 7, Cached: 64}},
		fakellm.Text{Text: "one", Usage: fakellm.Usage{Prompt: 130, Completion: 3}}, fakellm.Text{Text: "two", Usage: fakellm.Usage{Prompt: 140, Completion: 2}})
	if r := h.say(Say{Text: "go"}); r.Usage.Prompt != 230 || r.Usage.Completion != 10 || r.Usage.Cached != 64 || r.Calls != 2 {
		t.Errorf("%+v", r.Usage)
	}
	h.restart(with(echo("work")))
	h.say(Say{Text: "again"})
	usage, err := h.store.Usage(t.Context(), "s1")
	if err != nil || usage.Total.Calls != 3 || usage.Total.Prompt != 370 || usage.Total.Completion != 12 || usage.Total.Cached != 64 {
		t.Errorf("%+v, %v", usage.Total, err)
	}
}

func TestWhatWasStoredIsWhatIsSentAfterARestart(t *testing.T) {
	slow := make(chan struct{})
	two := fake{name: "two", run: func(ctx context.Context, call tool.Call) tool.Result {
		if strings.Contains(string(call.Args), "first") {
			select { // the first call ends after the second, so its row has the greater id
			case <-slow:
			case <-ctx.Done():
			}
		} else {
			defer close(slow)
		}
		return tool.Result{Content: "ünïcode <&> \u2028 " + string(call.Args), Effect: tool.EffectDone}
	}}
	h := newHouse(t, with(two),
		fakellm.ToolCall{Name: "two", Text: "both:", Args: map[string]any{"x": "first <b>"}, Parallel: []fakellm.ToolCall{{Name: "two", Args: `{ "y" : 2 }`}}},
		fakellm.ToolCall{Name: "two", Args: `{"broken":`}, fakellm.Text{Text: "done \"quoted\"\n"})
	h.say(Say{Text: "go <now>", Wire: "[Ann] go <now>"})
	before := h.llm.Requests()
	h.restart(with(two))
	h.llm.Push(fakellm.Text{Text: "again"})
	h.say(Say{Text: "next"})
	all := h.llm.Requests()
	last := sentMessages(t, all[len(all)-1])
	for n, request := range before {
		for i, raw := range sentMessages(t, request) {
			if string(raw) != string(last[i]) {
				t.Errorf("request %d, message %d\nbefore: %s\nafter:  %s", n, i, raw, last[i])
			}
		}
	}
	if want := len(sentMessages(t, before[2])) + 2; len(last) != want {
		t.Errorf("%d messages after the restart, want %d", len(last), want)
	}
	if tail := string(all[3].Body); !strings.Contains(tail, `"tools":`) || toolsOf(t, all[0]) != toolsOf(t, all[3]) {
		t.Error("the tools changed")
	}
}

func toolsOf(t *testing.T, r fakellm.Request) string {
	t.Helper()
	var body struct{ Tools json.RawMessage }
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	return string(body.Tools)
}

func TestEightTerminalCommandsInOneAnswer(t *testing.T) {
	r := newReaper(t, t.TempDir())
	first := fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "echo token-0"}}
	for i := 1; i < 8; i++ {
		first.Parallel = append(first.Parallel, fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": fmt.Sprintf("echo token-%d", i)}})
	}
	h := newHouse(t, with(tool.NewTerminal(tool.TerminalOptions{Reaper: r, Dir: t.TempDir()})), first, fakellm.Text{Text: "done"})
	h.say(Say{Text: "go"})
	rows := h.rows("s1")
	byID := results(rows[2:])
	for i, call := range storedCalls(rows[1]) {
		if want := fmt.Sprintf("token-%d\n[exit 0]", i); byID[call.ID].Content != want {
			t.Errorf("%s: %q, want %q", call.ID, byID[call.ID].Content, want)
		}
	}
}

func TestTheTerminalIsOffUnlessTheConfigurationSaysSo(t *testing.T) {
	ran := false
	work := fake{name: "terminal", run: func(context.Context, tool.Call) tool.Result { ran = true; return tool.Result{} }}
	h := newHouse(t, func(o *Options) { o.Tools, o.Terminal = tools(work), "" }, fakellm.ToolCall{Name: "terminal"}, fakellm.Text{Text: "sorry"},
		fakellm.ToolCall{Name: "terminal"}, fakellm.Text{Text: "sorry"})
	h.say(Say{Text: "go"})
	if rows := h.rows("s1"); ran || !strings.Contains(rows[2].Content, "tools.terminal") {
		t.Errorf("ran %v: %s", ran, rows[2].Content)
	}
	h.stop()
	h.start(with(work))
	h.say(Say{Text: "go", Source: "somewhere"})
	if rows := h.rows("s1"); ran || !strings.Contains(rows[6].Content, "unknown context") {
		t.Errorf("ran %v: %s", ran, rows[6].Content)
	}
}

func TestResultsOfATurnAreBoundedTogether(t *testing.T) {
	big := fake{name: "big", run: func(context.Context, tool.Call) tool.Result {
		return tool.Result{Content: strings.Repeat("A", 90_000), Effect: tool.EffectDone}
	}}
	h := newHouse(t, with(big))
	for i := range 12 {
		h.llm.Push(fakellm.ToolCall{Name: "big", Args: map[string]any{"n": i}})
	}
	h.llm.Push(fakellm.Text{Text: "done"})
	h.say(Say{Text: "go"})
	for _, request := range h.llm.Requests() {
		if len(request.Body) > 700_000 {
			t.Errorf("a request of %d bytes", len(request.Body))
		}
	}
}

func TestCallsThatAnInterruptKeptFromStartingAreAnsweredAsNotRun(t *testing.T) {
	running := make(chan struct{}, 16)
	slow := fake{name: "slow", run: func(ctx context.Context, _ tool.Call) tool.Result {
		running <- struct{}{}
		<-ctx.Done()
		return tool.Result{Content: "half", Effect: tool.EffectUnknown, Interrupted: true}
	}}
	first := fakellm.ToolCall{Name: "slow", Args: `{"n":0}`}
	for i := 1; i < roundWorkers+3; i++ {
		first.Parallel = append(first.Parallel, fakellm.ToolCall{Name: "slow", Args: fmt.Sprintf(`{"n":%d}`, i)})
	}
	h := newHouse(t, with(slow), first)
	go func() {
		for range roundWorkers {
			<-running
		}
		h.Interrupt("s1", Stop)
	}()
	h.say(Say{Text: "go"})
	rows := h.rows("s1")
	assertWhole(t, rows)
	notRun := 0
	for _, row := range rows {
		if row.Content == "[not run: stopped by the user]" && row.Effect == "none" {
			notRun++
		}
	}
	if notRun != 3 || len(running) != 0 {
		t.Errorf("%d calls answered as not run, %d ran too many", notRun, len(running))
	}
}

func TestAToolThatDoesNotStopIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		deaf := fake{name: "deaf", run: func(context.Context, tool.Call) tool.Result { <-release; return tool.Result{} }}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		tt := &turn{g: &Gateway{opts: Options{Tools: tools(deaf)}}, tuned: &Tuning{Terminal: tool.Allow}, say: Say{Source: SourceCLI}, log: quiet(), progress: newProgress(), room: tool.NewRoom(tool.BudgetFor(0), nil)}
		begin := time.Now()
		r := tt.perform(ctx, planned{name: "deaf", args: "{}"})
		if took := time.Since(begin); took != stopTimeout || r.Effect != tool.EffectUnknown || !r.Interrupted {
			t.Errorf("after %v: %+v", took, r)
		}
		close(release)
	})
}

func TestTheOfflineModelRunsACommandAndQuotesIt(t *testing.T) {
	terminal := tool.NewTerminal(tool.TerminalOptions{Reaper: newReaper(t, t.TempDir()), Dir: t.TempDir()})
	h := newHouse(t, func(o *Options) { o.Model, o.Tools = provider.Offline(), tools(terminal) })
	var kinds []string
	r, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "please run\n$ echo from the shell"}, func(e Event) {
		if e.Kind != EventDelta && e.Kind != EventModel {
			kinds = append(kinds, string(e.Kind)+" "+e.Tool)
		}
	})
	if err != nil || !r.Completed || !strings.Contains(r.Text, "from the shell") || strings.Join(kinds, ", ") != "tool_started terminal, tool_finished terminal" {
		t.Errorf("%+v, %v, %v", r, err, kinds)
	}
}
