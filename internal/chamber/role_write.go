package chamber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// filler is what the output of a tool looks like to the store: a row of several pages' worth of words.
var filler = strings.Repeat("the quick brown fox jumps over the lazy dog and runs on ", 54)[:3000]

// sessionsEach is how many conversations a writer holds by turns.
const sessionsEach = 3

// pen writes rows of one process and keeps its ledger.
type pen struct {
	a      *Actor
	store  *sessiondb.Store
	ledger *Ledger
	self   sessiondb.Holder
	acked  int
	writes int
}

// openStore opens the store as the program does, and waits for locks where the mode makes it.
func (a *Actor) openStore(ctx context.Context) (s *sessiondb.Store, err error) {
	err = a.through(ctx, func() error {
		s, err = sessiondb.Open(ctx, sessiondb.Options{Path: a.StorePath()})
		return err
	})
	return s, err
}

// newPen opens the store and a ledger.
func (a *Actor) newPen(ctx context.Context) (*pen, error) {
	ledger, err := newLedger(a.Ledgers(), OnStore, a.Tag)
	if err != nil {
		return nil, err
	}
	self, err := sessiondb.SelfHolder(a.Tag)
	if err != nil {
		return nil, err
	}
	p := &pen{a: a, ledger: ledger, self: self}
	return p, p.open(ctx)
}

func (p *pen) open(ctx context.Context) (err error) {
	p.store, err = p.a.openStore(ctx)
	return err
}

// close ends the store; what it says about a handle that was lost has been said before.
func (p *pen) close() error {
	if p.store == nil {
		return nil
	}
	err := p.store.Close()
	if err == nil {
		p.store = nil
	}
	return err
}

func (p *pen) ready() {
	p.a.Say(Event{Event: "ready", Mode: p.store.File().Journal().Mode})
}

// session makes the n-th conversation of this part, or finds it: a process that follows a killed one goes on where
// that one ended.
func (p *pen) session(ctx context.Context, n int) (string, error) {
	id := fmt.Sprintf("%s-%d", p.a.Tag, n)
	return id, p.a.through(ctx, func() error {
		_, err := p.store.CreateSession(ctx, sessiondb.NewSession{ID: id, Source: "chamber", Title: p.a.Tag})
		return err
	})
}

// turn holds the conversation's lease around fn.
func (p *pen) turn(ctx context.Context, session string, fn func(sessiondb.Lease) error) error {
	var lease sessiondb.Lease
	err := p.a.through(ctx, func() (err error) {
		lease, err = p.store.AcquireTurn(ctx, session, p.self, p.a.TTL)
		return err
	})
	if err != nil {
		return err
	}
	if err := fn(lease); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	return p.a.through(ctx, func() error { return p.store.Release(ctx, lease) })
}

// write stores rows, each with a token of its own in the text, and acknowledges them in the ledger once the store has
// said that they are durable. It finishes what it has begun, also when the role is told to stop meanwhile.
func (p *pen) write(ctx context.Context, l sessiondb.Lease, rows ...sessiondb.NewMessage) error {
	ctx = context.WithoutCancel(ctx)
	tokens, err := p.ledger.Intend(l.Session, len(rows))
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Content = strings.TrimRight(tokens[i]+" "+rows[i].Content, " ")
	}
	err = p.a.through(ctx, func() error {
		_, err := p.store.Append(ctx, l, rows)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.ledger.Ack(tokens); err != nil {
		return err
	}
	p.acked += len(tokens)
	p.a.Say(Event{Event: "acked", Count: len(tokens)})
	if p.writes++; p.a.Stray > 0 && p.writes%p.a.Stray == 0 {
		return p.a.stray()
	}
	return nil
}

// stray opens and closes the three files, as a backup program, a header probe or a plugin in this process would.
func (a *Actor) stray() error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		file, err := os.Open(a.StorePath() + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("stray open: %w", err)
		}
		if err := file.Close(); err != nil {
			return fmt.Errorf("stray close: %w", err)
		}
	}
	if mutation.On("stray-close-cancels-locks") {
		dropLocks(a.StorePath())
	}
	a.Say(Event{Event: "strayed"})
	return nil
}

// exchange is one turn as a gateway persists it: the question before the model is asked, the call before the tool
// starts, its result before the model sees it, the answer before it is acknowledged.
func (p *pen) exchange(ctx context.Context, l sessiondb.Lease) error {
	call := "call-" + fmt.Sprint(p.acked)
	calls, _ := json.Marshal([]map[string]any{{"id": call, "type": "function", "function": map[string]string{"name": "terminal", "arguments": "{}"}}})
	for _, row := range []sessiondb.NewMessage{
		{Role: "user", Content: "what does the fox do"},
		{Role: "assistant", ToolCalls: calls, FinishReason: "tool_calls"},
		{Role: "tool", ToolCallID: call, ToolName: "terminal", Effect: "done", Content: filler},
		{Role: "assistant", Content: "it jumps", FinishReason: "stop"},
	} {
		if err := p.write(ctx, l, row); err != nil {
			return err
		}
	}
	return nil
}

// resume ends a turn that a killed process left open, so that the conversation can go on.
func (p *pen) resume(ctx context.Context, l sessiondb.Lease) error {
	rows, err := p.store.Messages(ctx, l.Session, sessiondb.MessageFilter{Latest: true, Limit: 1})
	if err != nil || len(rows) == 0 {
		return err
	}
	last := rows[0]
	var calls []struct{ ID string }
	_ = json.Unmarshal(last.ToolCalls, &calls)
	switch {
	case last.Role == "assistant" && len(calls) > 0:
		err := p.write(ctx, l, sessiondb.NewMessage{Role: "tool", ToolCallID: calls[0].ID, ToolName: "terminal", Effect: "unknown", Content: "unknown"})
		if err != nil {
			return err
		}
		fallthrough
	case last.Role != "assistant":
		return p.write(ctx, l, sessiondb.NewMessage{Role: "assistant", Content: "interrupted", FinishReason: "stop"})
	}
	return nil
}

// gatewayRole holds several conversations on one handle, as the daemon does.
func gatewayRole(ctx context.Context, a *Actor) error {
	p, err := a.newPen(ctx)
	if err != nil {
		return err
	}
	p.ready()
	err = p.converse(ctx)
	for err != nil {
		if err = p.survive(ctx, err); err == nil {
			err = p.converse(ctx)
			continue
		}
		break
	}
	return errors.Join(unlessStopped(ctx, err), p.close())
}

// converse writes exchanges until ctx ends, which is no error.
func (p *pen) converse(ctx context.Context) error {
	for i := 0; ctx.Err() == nil; i++ {
		session, err := p.session(ctx, i%sessionsEach)
		if err != nil {
			return unlessStopped(ctx, err)
		}
		err = p.turn(ctx, session, func(l sessiondb.Lease) error {
			if i < sessionsEach {
				if err := p.resume(ctx, l); err != nil {
					return err
				}
			}
			return p.exchange(ctx, l)
		})
		if err != nil {
			return unlessStopped(ctx, err)
		}
		if p.a.rest(ctx) != nil {
			return nil
		}
	}
	return nil
}

// unlessStopped takes an error for none that only says that the role was told to stop.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || sqlite.ClassOf(err) == sqlite.Interrupted) {
		return nil
	}
	return err
}

// terminalRole opens the store for each exchange and closes it again, as a terminal program does.
func terminalRole(ctx context.Context, a *Actor) error {
	p, err := a.newPen(ctx)
	if err != nil {
		return err
	}
	p.ready()
	for i := 0; err == nil && ctx.Err() == nil; i++ {
		err = p.visit(ctx, i)
	}
	return errors.Join(unlessStopped(ctx, err), p.close())
}

func (p *pen) visit(ctx context.Context, i int) error {
	if p.store == nil {
		if err := p.open(ctx); err != nil {
			return err
		}
	}
	session, err := p.session(ctx, i%sessionsEach)
	if err == nil {
		err = p.turn(ctx, session, func(l sessiondb.Lease) error {
			if i < sessionsEach {
				if err := p.resume(ctx, l); err != nil {
					return err
				}
			}
			if err := p.write(ctx, l, sessiondb.NewMessage{Role: "user", Content: "and the dog"}); err != nil {
				return err
			}
			return p.write(ctx, l, sessiondb.NewMessage{Role: "assistant", Content: "it sleeps", FinishReason: "stop"})
		})
	}
	if err == nil {
		err = p.close()
	}
	if err == nil {
		p.a.Say(Event{Event: "cycled", Count: i + 1})
		err = p.a.rest(ctx)
	}
	return err
}

// plainRole appends question and answer by turns from two goroutines, so that their rows meet in one transaction.
func plainRole(ctx context.Context, a *Actor) error {
	p, err := a.newPen(ctx)
	if err != nil {
		return err
	}
	second := *p
	if second.ledger, err = newLedger(a.Ledgers(), OnStore, a.Tag+"b"); err != nil {
		return err
	}
	p.ready()
	var wait sync.WaitGroup
	var errs [2]error
	for i, pen := range []*pen{p, &second} {
		wait.Go(func() { errs[i] = unlessStopped(ctx, pen.drip(ctx, i)) })
	}
	wait.Wait()
	return errors.Join(errs[0], errs[1], p.close())
}

func (p *pen) drip(ctx context.Context, n int) error {
	session, err := p.session(ctx, n)
	if err != nil {
		return err
	}
	return p.turn(ctx, session, func(l sessiondb.Lease) error {
		if err := p.resume(ctx, l); err != nil {
			return err
		}
		for ctx.Err() == nil {
			err := p.write(ctx, l, sessiondb.NewMessage{Role: "user", Content: "tick"}, sessiondb.NewMessage{Role: "assistant", Content: "tock"})
			if err != nil {
				return err
			}
			if p.a.rest(ctx) != nil {
				break
			}
		}
		return nil
	})
}
