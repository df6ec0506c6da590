package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
	"gatewayd/kanban"
)

// MaxResult bounds what one call may take in a row, in characters; a tool's own bound is usually lower. What is larger is kept
// beside the row (Room.Fit) up to maxAnswer bytes, which bounds the memory that a tool can cost.
const (
	MaxResult = 100_000
	maxAnswer = 2 << 20
)

// Set is the tools of a gateway, in a fixed order. It never changes, so the bytes of a request's tool list do not either.
type Set struct {
	tools []Tool   // its own, sorted
	own   []string // their names
	names []string // of what the model is told; of a session's set, also of tools that came late
	specs []provider.ToolSpec
	late  Late
	fixed bool // it is a session's: what the model was told decides, and not what there is

	secrets *atomic.Pointer[[]string] // that no result may hold; shared by all sets that come from one
}

// NewSet sorts the tools by name. Two tools of one name are a bug of the caller and panic.
func NewSet(tools ...Tool) *Set {
	s := &Set{tools: slices.Clone(tools)}
	slices.SortFunc(s.tools, func(a, b Tool) int { return cmp.Compare(a.Spec().Name, b.Spec().Name) })
	for i, t := range s.tools {
		spec := t.Spec()
		if i > 0 && s.names[i-1] == spec.Name {
			panic("tool: two tools are called " + spec.Name)
		}
		s.names, s.specs = append(s.names, spec.Name), append(s.specs, spec)
	}
	s.own = s.names
	return s
}

// With gives a new Set with more tools.
func (s *Set) With(tools ...Tool) *Set {
	more := NewSet(append(slices.Clone(s.list()), tools...)...)
	if s != nil {
		more.secrets, more.late = s.secrets, s.late
	}
	return more
}

// Redacting gives the same tools with values that no result may hold: what gatewayd itself keeps secret. What looks like a secret is
// taken out of every result in any case.
func (s *Set) Redacting(known ...string) *Set {
	redacting := *s
	redacting.secrets = &atomic.Pointer[[]string]{}
	redacting.secrets.Store(&known)
	return &redacting
}

// Learn adds values that no result may hold from now on, in this set, in the one it came from and in all that came from it: those of
// conversations that are under way. What was secret before stays so. It may be called beside everything else, by one at a time.
func (s *Set) Learn(more ...string) {
	all := append(slices.Clone(s.known()), more...)
	slices.Sort(all)
	all = slices.Compact(all)
	s.secrets.Store(&all)
}

func (s *Set) known() []string {
	if s.secrets == nil || s.secrets.Load() == nil {
		return nil
	}
	return *s.secrets.Load()
}

// Specs is what the model is told, sorted by name. The caller must not change it.
func (s *Set) Specs() []provider.ToolSpec {
	if s == nil {
		return nil
	}
	return s.specs
}

// Names lists the tools, sorted.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return s.names
}

// ReadOnly reports whether a call would have no effect: because it only reads, or because it would be answered without being
// run. It is what the intent of a call is written from, before the call starts.
func (s *Set) ReadOnly(name string, args json.RawMessage) bool {
	t := s.find(name)
	return t == nil || !isObject(args) || t.ReadOnly(args)
}

// Run answers a call. It is the one place where tools run: a call that is not right, or not allowed, is answered here with an
// error that says why and never reaches the tool. A panic of the tool is answered too.
func (s *Set) Run(ctx context.Context, call Call) (result Result) {
	call = call.withDefaults()
	t := s.find(call.Name)
	switch {
	case t == nil:
		return Refuse("there is no tool %q; the tools are: %s. Nothing was run", call.Name, strings.Join(s.Names(), ", "))
	case !isObject(call.Args):
		return Refuse("the arguments of %s are not a JSON object; nothing was run. Send the call again with one whole object", call.Name)
	}
	if denial := gate(ctx, t, call); denial != "" && !(mutation.On("background-is-not-gated") && strings.Contains(string(call.Args), `"background":true`)) {
		call.Log.Info("tool call refused", "tool", call.Name, "reason", denial)
		return Refuse("%s", denial)
	}
	defer func() {
		if p := recover(); p != nil {
			call.Log.Error("tool panicked", "tool", call.Name, "panic", p, "stack", string(debug.Stack()))
			result = Result{Content: fmt.Sprintf("error: %s failed inside: %v. Its effect is unknown", call.Name, p), Err: true, Effect: EffectUnknown}
		}
	}()
	return s.bounded(t.Run(ctx, call))
}

// Refuse is the answer to a call that was not run.
func Refuse(format string, args ...any) Result {
	return Result{Content: "error: " + fmt.Sprintf(format, args...), Err: true, Effect: EffectNone}
}

func (s *Set) list() []Tool {
	if s == nil {
		return nil
	}
	return s.tools
}

func (s *Set) find(name string) Tool {
	if s == nil {
		return nil
	}
	if i, ok := slices.BinarySearch(s.own, name); ok {
		return s.tools[i]
	}
	if s.fixed {
		return s.came(name)
	}
	return nil
}

func (c Call) withDefaults() Call {
	if c.Progress == nil {
		c.Progress = func() {}
	}
	if c.Log == nil {
		c.Log = slog.Default().With("session", c.Session, "turn", c.Turn)
	}
	return c
}

// isObject reports whether args is one whole JSON object. Anything else is never run: no guessing, no mending.
func isObject(args json.RawMessage) bool {
	return provider.ToolCall{Arguments: string(args)}.Complete()
}

// bounded makes a result fit for a row and for a request. What a command says is cleaned further by its own tool, before it is cut
// into pages.
func (s *Set) bounded(r Result) Result {
	r.Content = kanban.RedactIssued(Clip(valid(r.Content), maxAnswer), s.known()...)
	if r.Effect == "" {
		r.Effect = EffectUnknown
	}
	return r
}
