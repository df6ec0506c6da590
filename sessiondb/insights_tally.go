package sessiondb

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"gatewayd/internal/mutation"
)

// tally is a window that is being counted. Its memory is bounded by maxNames, by the days of the window, and by maxOpen.
type tally struct {
	window       Window
	since, until int64 // microseconds
	now          int64
	out          Insights
	sources      map[string]int64
	tools        map[string]*ToolUse
	models       map[modelKey]*ModelCost
	days         map[string]*Day
	odds         map[string]*Odd
	open         map[string]standing
}

type modelKey struct{ model, provider, task string }

// standing is what a session's rows have told so far: the turn under way, and when the model last called tools in it.
type standing struct {
	turn string
	at   int64
}

// maxOpen sessions are remembered while their rows are read. When there are more, all are forgotten, at the price that a turn whose rows
// lie on both sides of that moment counts twice.
const maxOpen = 8192

// aheadMost is how far in the future a time may lie: clocks differ.
const aheadMost = int64(10 * time.Minute / time.Microsecond)

// spoken is what insights need of a row.
type spoken struct {
	id                        int64
	session, turn, role, tool string
	kind, begins              string // begins: of the content
	calls, valid              bool   // it has tool calls; they are JSON
	at                        int64
}

func newTally(w Window) *tally {
	if w.Zone == nil {
		w.Zone = time.UTC
	}
	return &tally{
		window: w, since: w.Since.UnixMicro(), until: w.Until.UnixMicro(), now: time.Now().UnixMicro(),
		out:     Insights{Since: w.Since.UTC(), Until: w.Until.UTC(), Roles: map[string]int64{}},
		sources: map[string]int64{}, tools: map[string]*ToolUse{}, models: map[modelKey]*ModelCost{}, days: map[string]*Day{}, odds: map[string]*Odd{}, open: map[string]standing{},
	}
}

// NoInsights is a window of a home without conversations.
func NoInsights(w Window) Insights { return newTally(w).result() }

// odd notes a row that is skipped.
func (t *tally) odd(what, example string) {
	o := t.odds[what]
	if o == nil {
		o = &Odd{What: what, Example: example}
		t.odds[what] = o
	}
	o.Count++
}

// when reports whether a time lies in the window. One that no clock showed is odd.
func (t *tally) when(thing, example string, at int64) bool {
	switch {
	case !sane(at):
		t.odd(thing+" with a time that no clock shows", example)
	case at > t.now+aheadMost && !mutation.On("insights-believe-the-future"):
		t.odd(thing+" from the future", example)
	default:
		return at >= t.since && at < t.until
	}
	return false
}

func (t *tally) day(at int64) *Day {
	name := time.UnixMicro(at).In(t.window.Zone).Format(time.DateOnly)
	if t.days[name] == nil {
		t.days[name] = &Day{Day: name}
	}
	return t.days[name]
}

func (t *tally) session(id, source string, at int64) {
	if !t.when("session", id, at) {
		return
	}
	t.out.Sessions++
	t.day(at).Sessions++
	t.sources[bounded(t.sources, cmp.Or(source, "(none)"))]++
}

// bounded is the name under which something counts.
func bounded[V any](known map[string]V, name string) string {
	if _, ok := known[name]; ok || len(known) < maxNames {
		return name
	}
	return others
}

func (t *tally) message(m spoken) {
	example := "message " + strconv.FormatInt(m.id, 10) + " of " + m.session
	if !t.when("message", example, m.at) {
		return
	}
	switch m.role {
	case "user", "assistant", "tool", "system":
	default:
		t.odd("message of an unknown role", example)
		return
	}
	if !m.valid && !mutation.On("insights-count-bad-json") {
		t.odd("message whose tool calls are no JSON", example)
		return
	}
	t.out.Messages++
	t.out.Roles[m.role]++
	t.day(m.at).Messages++
	t.follow(m)
}

// follow takes a row as the next of its session.
func (t *tally) follow(m spoken) {
	if len(t.open) >= maxOpen {
		clear(t.open)
	}
	state := t.open[m.session]
	if m.turn != "" && m.turn != state.turn {
		state = standing{turn: m.turn}
		t.out.Turns++
		t.day(m.at).Turns++
	}
	if m.role == "assistant" && m.calls {
		state.at = m.at
	}
	if m.role == "tool" {
		t.tool(m, state.at)
	}
	t.open[m.session] = state
}

func (t *tally) tool(m spoken, called int64) {
	name := bounded(t.tools, cmp.Or(m.tool, "(unnamed)"))
	use := t.tools[name]
	if use == nil {
		use = &ToolUse{Tool: name}
		t.tools[name] = use
	}
	use.Calls++
	if ResultFailed(m.kind, m.begins) {
		use.Failed++
	}
	if called > 0 && m.at >= called {
		use.Timed++
		use.Seconds += time.Duration((m.at - called) * int64(time.Microsecond)).Seconds()
	}
}

func (t *tally) usage(session string, u ModelUsage, first, last int64) {
	example := "usage of " + session + " by " + u.Model
	n := u.Counts
	switch {
	case !t.when("usage", example, last):
		return
	case min(n.Calls, n.Prompt, n.Completion, n.Cached, n.CacheWrite, n.Reasoning) < 0 && !mutation.On("insights-add-negative-numbers"):
		t.odd("usage with a negative number", example)
		return
	case max(n.Calls, n.Prompt, n.Completion, n.Cached, n.CacheWrite, n.Reasoning) > tokensMost:
		t.odd("usage beyond what a model can read", example)
		return
	case n.Prompt >= 0 && n.Cached+n.CacheWrite > n.Prompt:
		t.odd("usage with more cached tokens than there were", example)
		return
	}
	if first < t.since {
		t.out.Earlier++
	}
	t.model(u, moment(last))
}

// tokensMost in one sum; more would be 30,000 tokens a second for a year. It keeps sums of a million of them within 64 bits.
const tokensMost = 1_000_000_000_000

func (t *tally) model(u ModelUsage, last time.Time) {
	key := modelKey{u.Model, u.Provider, u.Task}
	if t.models[key] == nil && len(t.models) >= maxNames {
		key = modelKey{model: others}
	}
	sum := t.models[key]
	if sum == nil {
		sum = &ModelCost{ModelUsage: ModelUsage{Model: key.model, Provider: key.provider, Task: key.task}}
		t.models[key] = sum
	}
	sum.Counts = sum.Counts.plus(u.Counts)
	t.out.Tokens = t.out.Tokens.plus(u.Counts)
	if last.After(sum.LastAt) {
		sum.LastAt = last
	}
}

// result puts what was counted in order.
func (t *tally) result() Insights {
	out := t.out
	out.Sources, out.Tools, out.Models, out.Days, out.Odd = []Named{}, []ToolUse{}, []ModelCost{}, []Day{}, []Odd{}
	for name, n := range t.sources {
		out.Sources = append(out.Sources, Named{name, n})
	}
	slices.SortFunc(out.Sources, func(a, b Named) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	for _, use := range t.tools {
		out.Tools = append(out.Tools, *use)
	}
	slices.SortFunc(out.Tools, func(a, b ToolUse) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tool, b.Tool)) })
	for _, m := range t.models {
		out.Models = append(out.Models, *m)
	}
	slices.SortFunc(out.Models, func(a, b ModelCost) int {
		return cmp.Or(b.LastAt.Compare(a.LastAt), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Task, b.Task))
	})
	out.Cost = priced(out.Models, t.window.Price)
	for _, name := range slices.Sorted(maps.Keys(t.days)) {
		out.Days = append(out.Days, *t.days[name])
	}
	for _, what := range slices.Sorted(maps.Keys(t.odds)) {
		out.Odd = append(out.Odd, *t.odds[what])
	}
	return out
}
