package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gatewayd/gateway/compact"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// Window says how much a conversation's model holds, how much of that is taken, and where the numbers come from.
type Window struct {
	Model    string `json:"model"`
	Tokens   int    `json:"tokens"`   // that a request may hold
	Origin   string `json:"origin"`   // who said so
	Used     int    `json:"used"`     // of them
	Measured bool   `json:"measured"` // Used is the server's own count and an estimate of what came since; else an estimate
	Trigger  int    `json:"trigger"`  // where the conversation is compacted; 0: never by itself
	Warning  string `json:"warning,omitempty"`
}

// used is how full the window is.
type used struct {
	tokens   int
	measured bool // by the server, up to its last answer
	known    bool // good enough to compact by
}

// window gives the tokens that a request to a model may hold and who said so: the settings, the server when it refused a request,
// its own list, a table of well-known models, or nobody. ask lets the server be asked, once in a while.
func (g *Gateway) window(ctx context.Context, m provider.Model, ask bool) (tokens int, origin string) {
	about := m.Describe()
	if about.ContextLength == 0 && ask && !about.Offline {
		g.windows.ask(ctx, m)
		about = m.Describe()
	}
	if about.ContextLength > 0 {
		return about.ContextLength, windowOrigin(about)
	}
	if n := compact.Usual(about.Name); n > 0 {
		return n, "what models of this name usually hold"
	}
	return compact.Unknown, "assumed: neither the settings nor the server say"
}

// ModelWindow gives the window of the model that answers, in tokens, and who said so, as far as it is known; no server is asked.
func (g *Gateway) ModelWindow() (tokens int, origin string) {
	return g.window(context.Background(), g.tuned().Model, false)
}

func windowOrigin(about provider.Description) string {
	if about.WindowFrom != "" {
		return about.WindowFrom
	}
	return "the model server"
}

// roomOf is what results may take in a turn that a model answers.
func (g *Gateway) roomOf(ctx context.Context, m provider.Model) tool.Budget {
	tokens, _ := g.window(ctx, m, false)
	return tool.BudgetFor(tokens)
}

// asker asks servers for windows, each at most once in a while: one that does not say now will not say with the next request.
type asker struct {
	mu     sync.Mutex
	asked  map[string]time.Time
	warned map[string]bool
}

const (
	askBound = 2 * time.Second
	askAgain = 10 * time.Minute
)

// warn says something of a model once in the life of a process.
func (a *asker) warn(m provider.Model, say func()) {
	about := m.Describe()
	key := about.BaseURL + " " + about.Name
	a.mu.Lock()
	first := !a.warned[key]
	if a.warned == nil {
		a.warned = map[string]bool{}
	}
	a.warned[key] = true
	a.mu.Unlock()
	if first {
		say()
	}
}

func (a *asker) ask(ctx context.Context, m provider.Model) {
	server, ok := m.(interface{ AskWindow(context.Context) })
	about := m.Describe()
	key := about.BaseURL + " " + about.Name
	a.mu.Lock()
	due := time.Since(a.asked[key]) > askAgain
	if ok && due {
		if a.asked == nil {
			a.asked = map[string]time.Time{}
		}
		a.asked[key] = time.Now()
	}
	a.mu.Unlock()
	if ok && due {
		ctx, cancel := context.WithTimeout(ctx, askBound)
		defer cancel()
		server.AskWindow(ctx)
	}
}

// askFrom is how many tokens a conversation must have before its window matters: no model holds less.
const askFrom = 4000

// budgetOf applies the rules to a model.
func (g *Gateway) budgetOf(ctx context.Context, tuned *Tuning, m provider.Model, tokens int) compact.Budget {
	about, ask := m.Describe(), tokens >= askFrom
	window, _ := g.window(ctx, m, ask)
	aux := 0
	if side := tuned.Aux; side != nil && (!sameModel(side, m) || side.Describe().ContextLength > 0) {
		aux, _ = g.window(ctx, tuned.Aux, ask)
	}
	return tuned.Compaction.Rules.Budget(about.Provider, about.Name, window, aux)
}

// measure counts what rows take of the window. last is the newest request that was answered: what the server counted holds as
// long as the newest row that it carried is still sent; what came after it is estimated. The answer itself was counted, too.
func measure(rows []sessiondb.Message, last sessiondb.Asked, answered bool, overhead int) used {
	at := -1
	if answered {
		at = place(rows, last.Row)
	}
	if at < 0 || last.Prompt <= 0 {
		return used{tokens: compact.Size(rows) + overhead, known: at >= 0}
	}
	rest := rows[at+1:]
	if len(rest) > 0 && rest[0].Role == roleAssistant {
		rest = rest[1:]
	}
	return used{tokens: int(last.Prompt+last.Completion) + compact.Size(rest), measured: true, known: true}
}

// weighed counts what the turn's rows take of the window.
func (t *turn) weighed() used {
	last, answered := t.folding.last, t.folding.answered
	if t.asked != nil {
		last, answered = sessiondb.Asked{Prompt: t.asked.usage.Prompt, Completion: t.asked.usage.Completion, Row: t.asked.row}, true
	} else if !t.folding.read {
		var err error
		if last, answered, err = t.g.opts.Store.LastRequest(t.ctx, t.session.ID); err != nil {
			t.log.Warn("last request not read, the window is estimated", "error", err)
		}
		t.folding.last, t.folding.answered, t.folding.read = last, answered, true
	}
	return measure(t.rows, last, answered, t.fixed())
}

// budget applies the rules to the turn's model.
func (t *turn) budget() compact.Budget {
	size := 0
	for i := 0; i < len(t.rows) && size < askFrom; i++ {
		size += compact.RowTokens(t.rows[i])
	}
	b := t.g.budgetOf(t.ctx, t.tuned, t.model, size)
	if b.Window < compact.LeastFor && size >= askFrom && len(t.offered()) > 0 {
		t.g.windows.warn(t.model, func() {
			w := t.g.windowOf(t.ctx, t.model, used{})
			t.log.Warn("the model's window is small for a conversation with tools", "model", w.Model, "window", w.Tokens, "origin", w.Origin, "remedy", w.Warning)
		})
	}
	return b
}

// overhead is what a request carries beside the rows: every tool's schema counts, a guest's as one's own.
func overhead(system string, offered []provider.ToolSpec) int {
	n := compact.Tokens(system)
	if mutation.On("tools-weigh-nothing") {
		return n
	}
	for _, spec := range offered {
		n += compact.Tokens(spec.Name) + compact.Tokens(spec.Description) + compact.Tokens(string(spec.Parameters))
	}
	return n
}

// Window gives the window of a session and how much of it is taken. It reads, and asks the model's server at most once in a while.
func (g *Gateway) Window(ctx context.Context, session string) (Window, error) {
	m, _, used, err := g.weigh(ctx, session)
	if err != nil {
		return Window{}, explained(err, "session "+session)
	}
	return g.windowOf(ctx, m, used), nil
}

func (g *Gateway) windowOf(ctx context.Context, m provider.Model, used used) Window {
	about := m.Describe()
	w := Window{Model: about.Name, Used: used.tokens, Measured: used.measured}
	w.Tokens, w.Origin = g.window(ctx, m, true)
	if tuned := g.tuned(); !tuned.Compaction.Off {
		w.Trigger = g.budgetOf(ctx, tuned, m, askFrom).Trigger
	}
	if w.Tokens < compact.LeastFor && len(g.opts.Tools.Specs()) > 0 && !about.Offline {
		w.Warning = smallWindow(w)
	}
	return w
}

// smallWindow says what a person can do about a window in which tools have no room.
func smallWindow(w Window) string {
	return fmt.Sprintf("the model %s holds %d tokens (%s); conversations with tools need %d. Give the server a larger window (Ollama: num_ctx %d; "+
		"llama.cpp: -c 65536; vLLM: --max-model-len 65536), or say in model.context_length how much it really holds",
		w.Model, w.Tokens, w.Origin, compact.LeastFor, 65536)
}

// weigh reads a session and how much its rows take.
func (g *Gateway) weigh(ctx context.Context, session string) (provider.Model, []sessiondb.Message, used, error) {
	s, err := g.opts.Store.Session(ctx, session)
	if err != nil {
		return nil, nil, used{}, err
	}
	rows, err := g.opts.Store.Transcript(ctx, session)
	if err != nil {
		return nil, nil, used{}, err
	}
	last, answered, err := g.opts.Store.LastRequest(ctx, session)
	if err != nil {
		return nil, nil, used{}, err
	}
	prompt := g.opts.SystemPrompt
	if s.PromptHash != "" {
		if prompt, err = g.opts.Store.Prompt(ctx, s.PromptHash); err != nil {
			return nil, nil, used{}, err
		}
	}
	set, err := g.toldTools(ctx, session)
	if err != nil {
		return nil, nil, used{}, err
	}
	return g.modelOf(ctx, session), rows, measure(rows, last, answered, overhead(prompt, set.Specs())), nil
}

// place is where the row of an id stands, looked for from the end; -1 where it does not.
func place(rows []sessiondb.Message, id int64) int {
	at := len(rows) - 1
	for at >= 0 && rows[at].ID != id {
		at--
	}
	return at
}
