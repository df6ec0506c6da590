package tool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gatewayd/gateway/provider"
)

// probe is a tool that records whether it ran.
type probe struct {
	name     string
	readOnly bool
	need     Permission
	command  string
	ran      *int
	run      func(context.Context, Call) Result
}

func (p probe) Spec() provider.ToolSpec       { return provider.ToolSpec{Name: p.name} }
func (p probe) ReadOnly(json.RawMessage) bool { return p.readOnly }
func (p probe) Run(ctx context.Context, call Call) Result {
	*p.ran++
	if p.run != nil {
		return p.run(ctx, call)
	}
	return Result{Content: "ran", Effect: EffectDone}
}

// effectful adds what only a tool with effects has.
type effectful struct{ probe }

func (e effectful) Permission() Permission { return e.need }
func (e effectful) Command(Call) string    { return e.command }

func TestTheGateLetsOnlyPermittedCallsReachATool(t *testing.T) {
	terminal := func(ran *int) Tool { return effectful{probe{name: "x", need: NeedsTerminal, command: "ls", ran: ran}} }
	for _, c := range []struct {
		name   string
		make   func(*int) Tool
		policy Policy
		args   string
		runs   bool
		says   string
	}{
		{"allowed", terminal, cli, `{}`, true, "ran"},
		{"denied by default", terminal, Policy{Context: "api"}, `{}`, false, "tools.terminal"},
		{"denied by name", terminal, Policy{Context: "api", Terminal: Deny}, `{}`, false, "tools.terminal: ask"},
		{"a mode nobody knows denies", terminal, Policy{Context: "api", Terminal: "yes"}, `{}`, false, "tools.terminal"},
		{"unknown context", terminal, Policy{Context: "cron", Terminal: Allow}, `{}`, false, "unknown context"},
		{"zero policy", terminal, Policy{}, `{}`, false, "unknown context"},
		{"read-only in an unknown context", func(ran *int) Tool { return probe{name: "x", readOnly: true, ran: ran} }, Policy{}, `{}`, false, "unknown context"},
		{"read-only needs no permission", func(ran *int) Tool { return probe{name: "x", readOnly: true, ran: ran} }, Policy{Context: "api"}, `{}`, true, "ran"},
		{"an effect nobody named", func(ran *int) Tool { return probe{name: "x", ran: ran} }, cli, `{}`, false, "may only read"},
		{"a permission nobody grants", func(ran *int) Tool { return effectful{probe{name: "x", need: "network", ran: ran}} }, cli, `{}`, false, "no policy grants"},
		{"board tools outside of a worker", func(ran *int) Tool { return effectful{probe{name: "x", need: NeedsCard, ran: ran}} }, cli, `{}`, false, "worker of a card"},
		{"board tools in a worker", func(ran *int) Tool { return effectful{probe{name: "x", need: NeedsCard, ran: ran}} }, Policy{Context: "worker"}, `{}`, true, "ran"},
		{"the floor has no override", func(ran *int) Tool {
			return effectful{probe{name: "x", need: NeedsTerminal, command: "rm -rf /", ran: ran}}
		}, cli, `{}`, false, "under every setting"},
		{"undecodable arguments", terminal, cli, `{"a":`, false, "not a JSON object"},
		{"arguments that are no object", terminal, cli, `["ls"]`, false, "not a JSON object"},
		{"no arguments at all", terminal, cli, ``, false, "not a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ran := 0
			r := NewSet(c.make(&ran)).Run(t.Context(), Call{Name: "x", Args: json.RawMessage(c.args), Policy: c.policy})
			if (ran == 1) != c.runs || !strings.Contains(r.Content, c.says) {
				t.Errorf("ran %d times, answered %q; want it to run: %v, and to say %q", ran, r.Content, c.runs, c.says)
			}
			if !c.runs && (!r.Err || r.Effect != EffectNone) {
				t.Errorf("a refused call must be an error without effect: %+v", r)
			}
		})
	}
}

func TestAnUnknownToolIsAnsweredWithTheKnownOnes(t *testing.T) {
	ran := 0
	set := NewSet(probe{name: "b", readOnly: true, ran: &ran}, probe{name: "a", readOnly: true, ran: &ran})
	r := set.Run(t.Context(), Call{Name: "c", Args: args(map[string]any{}), Policy: cli})
	if !r.Err || !strings.Contains(r.Content, "a, b") || ran != 0 {
		t.Errorf("%+v", r)
	}
	if !set.ReadOnly("c", args(map[string]any{})) {
		t.Error("a call that is only answered has no effect")
	}
}

func TestTheOrderOfToolsDoesNotDependOnTheOrderOfTheirMaking(t *testing.T) {
	ran := 0
	a, b := probe{name: "a", ran: &ran}, probe{name: "b", ran: &ran}
	if x, y := NewSet(a, b).Names(), NewSet(b).With(a).Names(); !slices.Equal(x, y) {
		t.Errorf("%v and %v", x, y)
	}
}

func TestATwiceNamedToolPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	ran := 0
	NewSet(probe{name: "a", ran: &ran}, probe{name: "a", ran: &ran})
}

func TestAPanickingToolCostsItsCallOnly(t *testing.T) {
	ran := 0
	set := NewSet(probe{name: "a", readOnly: true, ran: &ran, run: func(context.Context, Call) Result { panic("boom") }})
	r := set.Run(t.Context(), Call{Name: "a", Args: args(map[string]any{}), Policy: cli})
	if !r.Err || r.Effect != EffectUnknown || !strings.Contains(r.Content, "boom") {
		t.Errorf("%+v", r)
	}
}

func TestAResultIsBoundedAndValid(t *testing.T) {
	ran := 0
	set := NewSet(probe{name: "a", readOnly: true, ran: &ran, run: func(context.Context, Call) Result {
		return Result{Content: "\xff\x00" + strings.Repeat("ä", maxAnswer), Effect: EffectNone}
	}})
	r := set.Run(t.Context(), Call{Name: "a", Args: args(map[string]any{}), Policy: cli})
	if len(r.Content) > maxAnswer+200 || strings.ContainsAny(r.Content, "\x00") || !strings.Contains(r.Content, "left out here") {
		t.Errorf("%d bytes: %.60q", len(r.Content), r.Content)
	}
	for _, c := range r.Content[10:] {
		if c == '\uFFFD' {
			t.Fatal("a character was cut in two")
		}
	}
}
