package gateway

import (
	"context"
	"testing"
	"time"

	"gatewayd/gateway/tool"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// A call that failed is told as failed by what is kept of it, whatever its tool, a server or a board said; one that went well is not, whatever
// it said.
func TestEachFormInWhichACallFailsIsKeptAsAFailure(t *testing.T) {
	answers := func(name string, r tool.Result) fake {
		return fake{name: name, run: func(context.Context, tool.Call) tool.Result { return r }}
	}
	forms := []fake{
		answers("command", tool.Result{Content: "no such file\n[exit 2]", Err: true, Effect: tool.EffectDone}),
		answers("server", tool.Result{Content: "oh no", Err: true, Effect: tool.EffectDone}),
		answers("board", tool.Result{Content: `{"error":"the card is not there"}`, Err: true, Effect: tool.EffectNone}),
		answers("cut", tool.Result{Content: "half", Err: true, Effect: tool.EffectUnknown, Interrupted: true}),
		answers("refused", tool.Refuse("not allowed")),
		{name: "panics", run: func(context.Context, tool.Call) tool.Result { panic("so") }},
	}
	calls := fakellm.ToolCall{Name: "nobody", Args: `{}`}
	want := map[string]int64{"nobody": 1, "well": 0}
	all := []tool.Tool{answers("well", tool.Result{Content: "well: errors: 0", Effect: tool.EffectDone})}
	for _, f := range forms {
		all = append(all, f)
		calls.Parallel = append(calls.Parallel, fakellm.ToolCall{Name: f.name, Args: `{}`})
		want[f.name] = 1
	}
	calls.Parallel = append(calls.Parallel, fakellm.ToolCall{Name: "command", Args: `no object`}, fakellm.ToolCall{Name: "well", Args: `{}`})
	want["command"]++
	h := newHouse(t, with(all...), calls, fakellm.Text{Text: "done"})
	h.say(Say{Text: "go"})
	got, err := h.store.Insights(t.Context(), sessiondb.Window{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Tools) != len(want) {
		t.Errorf("%d tools are told of, want %d: %+v", len(got.Tools), len(want), got.Tools)
	}
	for _, use := range got.Tools {
		if use.Failed != want[use.Tool] {
			t.Errorf("%s failed %d times, want %d", use.Tool, use.Failed, want[use.Tool])
		}
	}
	for _, repaired := range []string{unknownEffect, neverRead, neverStored, gapResult} {
		if !sessiondb.ResultFailed("", repaired) {
			t.Errorf("%q, from before kinds were kept, is no failure", repaired)
		}
	}
}
