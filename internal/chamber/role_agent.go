package chamber

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"gatewayd/gateway"
	"gatewayd/gateway/compact"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/reaper"
	"gatewayd/sessiondb"
)

// OnFold is the kind of the ledgers of agents. Their conversations are compacted, so that a row of theirs may be there
// as a copy and as history beside it; they are audited by rules of their own.
const OnFold Kind = "fold"

// Talk is what an agent is told beside what all roles are.
type Talk struct {
	Model string `json:",omitempty"` // base URL of its model
	Turns int    `json:",omitempty"` // that it takes before it says finished
	Fold  bool   `json:",omitempty"` // after each turn the oldest exchange is folded
	Here  int    `json:",omitempty"` // after this turn all but the last two exchanges are; 0 never
	Alone bool   `json:",omitempty"` // the agent folds by itself beside its turns, as a program without our engine would
}

// agent is a program that answers: the real turn loop over the store, a model on the loopback, a terminal, and after its
// turns the folding of what was said.
type agent struct {
	a       *Actor
	store   *sessiondb.Store
	ledger  *Ledger
	self    sessiondb.Holder
	model   provider.Model
	gateway *gateway.Gateway
	ended   chan struct{} // everything that runs beside the turns
	cancel  context.CancelFunc
	away    int // rows that were folded at the last look
}

// agentRole takes its turns in the conversation that has the name of its tag, and waits to be stopped.
func agentRole(ctx context.Context, a *Actor) error {
	g, err := newAgent(ctx, a)
	if err != nil {
		return err
	}
	a.Say(Event{Event: "ready", Mode: g.store.File().Journal().Mode})
	for n := 1; n <= a.Talk.Turns && err == nil; n++ {
		err = g.turn(ctx, n)
	}
	if err == nil {
		a.Say(Event{Event: "finished"})
		<-ctx.Done()
	}
	return errors.Join(unlessStopped(ctx, err), g.close())
}

func newAgent(ctx context.Context, a *Actor) (*agent, error) {
	ledger, err := newLedger(a.Ledgers(), OnFold, a.Tag)
	if err != nil {
		return nil, err
	}
	ledger.prefix = fmt.Sprintf("TA%sx%dxN", a.Tag, os.Getpid())
	g := &agent{a: a, ledger: ledger, ended: make(chan struct{})}
	if g.self, err = sessiondb.SelfHolder(a.Tag); err != nil {
		return nil, err
	}
	if g.store, err = a.openStore(ctx); err != nil {
		return nil, err
	}
	children, err := reaper.New(reaper.Options{Dir: filepath.Join(a.Home, "records-"+a.Tag), Spares: -1})
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	g.model = &faithful{Model: newModel(a.Talk.Model, a.Tag), store: g.store, session: a.Tag}
	g.gateway = gateway.New(gateway.Options{
		Store: g.store, Model: g.model, Log: log, Terminal: tool.Allow, Grace: -1, LeaseTTL: a.TTL, Compaction: folding(a.Talk),
		Tools: tool.NewSet(tool.NewTerminal(tool.TerminalOptions{Reaper: children, Dir: a.Home})),
	})
	g.run(children)
	return g, nil
}

// folding are the settings of an agent with a small window, of which next to nothing is kept word for word.
func folding(t Talk) gateway.CompactionOptions {
	rules := compact.Default()
	rules.Legacy, rules.TargetRatio, rules.ProtectFirst, rules.ProtectLast = true, 0.1, 0, protected
	return gateway.CompactionOptions{Rules: &rules, Rolling: t.Fold && !t.Alone, Off: t.Alone}
}

// run starts what lives beside the turns, until close.
func (g *agent) run(children *reaper.Reaper) {
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	go func() {
		defer close(g.ended)
		talk := make(chan struct{})
		go func() { defer close(talk); _ = g.gateway.Run(ctx) }()
		_ = children.Run(ctx)
		<-talk
	}()
}

func (g *agent) close() error {
	g.cancel()
	<-g.ended
	return g.store.Close()
}

// turn asks, waits for the answer, notes that it was acknowledged, and folds.
func (g *agent) turn(ctx context.Context, n int) error {
	tokens, err := g.ledger.Intend(g.a.Tag, 1)
	if err != nil {
		return err
	}
	result, err := g.gateway.Say(ctx, gateway.Say{Session: g.a.Tag, Source: gateway.SourceCLI, Text: tokens[0] + "Q what is there"}, nil)
	if err != nil {
		return err
	}
	if !result.Completed {
		return fmt.Errorf("turn %d: %s: %w", n, result.ExitReason, errors.Join(result.Error, ctx.Err()))
	}
	if !strings.HasPrefix(result.Text, tokens[0]+"A") {
		return fmt.Errorf("turn %d was answered with %.60q", n, result.Text)
	}
	if err := g.ledger.Ack(tokens); err != nil {
		return err
	}
	g.a.Say(Event{Event: "acked", Count: 1, Text: tokens[0]})
	switch {
	case g.a.Talk.Fold && g.a.Talk.Alone:
		return g.compact(ctx)
	case g.a.Talk.Fold:
		return g.rolled(ctx)
	case g.a.Talk.Here == n:
		return g.compress(ctx)
	}
	return nil
}

// rolled says what the turn that has just ended has folded.
func (g *agent) rolled(ctx context.Context) error {
	rows, err := allRows(ctx, g.store, g.a.Tag)
	if err != nil {
		return err
	}
	away := 0
	for _, row := range rows {
		if row.compacted {
			away++
		}
	}
	if away > g.away {
		g.a.Say(Event{Event: "folded", Count: away - g.away})
	}
	g.away = away
	return nil
}

// compress does what a person asks for: the last two exchanges stay.
func (g *agent) compress(ctx context.Context) error {
	done, err := g.gateway.Compress(ctx, g.a.Tag, gateway.Compress{Here: 2})
	if err != nil {
		return err
	}
	if done.Status != gateway.CompressDone {
		return fmt.Errorf("compress: %s", done)
	}
	g.a.Say(Event{Event: "compressed", Count: done.Folded})
	return nil
}

// compact folds the oldest exchange: it has it summarised, which takes as long as the model likes, and commits.
func (g *agent) compact(ctx context.Context) error {
	l, err := g.store.AcquireCompaction(ctx, g.a.Tag, g.self, g.a.TTL)
	if err != nil {
		return err
	}
	defer func() { _ = g.store.Release(context.WithoutCancel(ctx), l) }()
	rows, err := g.store.Transcript(ctx, g.a.Tag)
	if err != nil {
		return err
	}
	f, some := foldOldest(rows)
	if !some {
		return nil
	}
	answer, err := g.model.Complete(ctx, f.request(), nil)
	if err != nil {
		return fmt.Errorf("summarise: %w", err)
	}
	done, err := g.store.ArchiveAndCompact(ctx, f.plan(l, rows, answer.Text))
	if err != nil {
		return err
	}
	g.a.Say(Event{Event: "folded", Count: done.Folded})
	return nil
}
