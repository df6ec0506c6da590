package chamber

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Moment is a point of a turn, or after it, at which an agent waits for its model.
type Moment string

// The moments.
const (
	Asked       Moment = "asked"       // the question is stored, nothing was answered
	Found       Moment = "found"       // the tool has run, its result is stored
	Answering   Moment = "answering"   // a part of the answer has arrived
	Summarising Moment = "summarising" // a part of a summary has arrived, which no row knows of
)

// Listener is the model server on the other side of the agents, as the faults see it.
type Listener interface {
	URL() string
	// Hold waits for the next request of an agent at this moment and leaves it as it is: the agent waits, until it is let go.
	Hold(ctx context.Context, tag string, at Moment) (letGo func(), err error)
}

const agentTurns = 5

// Compactions are the episodes in which two programs fold what was said in their conversations, on one store with a
// writer, a reader and a visitor, and one is killed in the middle. Each leaves a conversation that a fresh process goes on
// with. They need a chamber of their own each.
func Compactions(l Listener) []Episode {
	return []Episode{
		{Name: "compaction_clean", Cast: folders(l), Faults: foldedAndResumed(l)},
		{Name: "compaction_kill_turn", Cast: folders(l), Faults: foldedAndResumed(l, killAt(l, "gw", Asked, Found, Answering))},
		{Name: "compaction_kill_summary", Cast: folders(l), Faults: foldedAndResumed(l, killAt(l, "gw", Summarising))},
		{Name: "compaction_freeze", Modes: []string{WAL}, Cast: freezers(l), Faults: []Fault{freezeAt(l), allFoldsHold()}},
	}
}

func folders(l Listener) []Part {
	reader := readerPart
	reader.Lasting = false
	return []Part{
		{Role: "agent", Name: "gw", Works: "ready", With: Params{Talk: Talk{Model: l.URL(), Turns: agentTurns, Fold: true}}},
		{Role: "agent", Name: "term", Works: "ready", With: Params{Talk: Talk{Model: l.URL(), Turns: agentTurns, Here: 3}}},
		plainPart, reader, churnPart, indexerPart,
	}
}

// foldedAndResumed are the faults and what follows them: the turns are taken, both conversations are resumed by a fresh
// process, and everything that was said is where it belongs.
func foldedAndResumed(l Listener, faults ...Fault) []Fault {
	return append(faults, resume(l, "term", Talk{Turns: 1}), resume(l, "gw", Talk{Turns: 1, Fold: true}), came("churn", "cycled", 30), foldsHold())
}

// killAt kills an agent while its model holds it at one of the moments, which the seed chooses, after it had some turns
// acknowledged. What it leaves is what was there: the proof is a census before and after.
func killAt(l Listener, name string, moments ...Moment) Fault {
	return Fault{Name: fmt.Sprintf("kill -9 %s while %v", name, moments), Do: func(ctx context.Context, s *Stage) error {
		p, err := s.player(name)
		if err != nil {
			return err
		}
		if err := p.await(ctx, "acked", 2+s.Rand.IntN(2)); err != nil {
			return err
		}
		at := moments[s.Rand.IntN(len(moments))]
		if _, err := l.Hold(ctx, name, at); err != nil {
			return fmt.Errorf("%s was not met while %s: %w", name, at, err)
		}
		before, err := s.census(ctx, name)
		if err != nil {
			return err
		}
		if err := s.fell(p); err != nil {
			return err
		}
		after, err := s.census(ctx, name)
		if err != nil {
			return err
		}
		want := string(leaseAt(at))
		switch {
		case before.Text != after.Text:
			return fmt.Errorf("the kill while %s changed rows:\n%s\n%s", at, before.Text, after.Text)
		case before.Class != want:
			return fmt.Errorf("while %s the leases %q were held instead of %q", at, before.Class, want)
		}
		return nil
	}}
}

// freezers are an agent with a short lease that will lose it, and those who look on.
func freezers(l Listener) []Part {
	told := Params{TTL: time.Second, Talk: Talk{Model: l.URL(), Turns: agentTurns, Fold: true, Alone: true}}
	return append([]Part{{Role: "agent", Name: "gw", Works: "ready", With: told, Error: "conflict"}}, folders(l)[2:]...)
}

// freezeAt stops an agent for longer than its lease lives while its summary is written. Another process takes a turn in
// the conversation and folds; then the first one wakes, gets its summary, and must be refused.
func freezeAt(l Listener) Fault {
	return Fault{Name: "SIGSTOP past the lease of a compaction", Do: func(ctx context.Context, s *Stage) error {
		p, err := s.player("gw")
		if err != nil {
			return err
		}
		if err := p.await(ctx, "acked", 2); err != nil {
			return err
		}
		letGo, err := l.Hold(ctx, "gw", Summarising)
		if err != nil {
			return err
		}
		if err := p.proc.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		defer p.proc.Signal(syscall.SIGCONT)
		other := Part{Role: "agent", Name: "other", Works: "ready", With: p.part.With}
		other.With.Tag, other.With.Talk.Turns = "gw", 1
		if err := s.enter(other); err != nil {
			return err
		}
		if err := s.cast["other"].await(ctx, "folded", 1); err != nil {
			return err
		}
		letGo()
		if err := p.proc.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		<-p.proc.Done()
		s.gone = append(s.gone, p)
		delete(s.cast, "gw")
		return nil
	}}
}

// leaseAt are the leases that an agent has at a moment; nothing else proves that the kill came there.
func leaseAt(at Moment) string {
	if at == Summarising {
		return "compaction turn"
	}
	return "turn"
}

// census asks a process of its own.
func (s *Stage) census(ctx context.Context, session string) (Event, error) {
	p, err := s.once(ctx, Part{Role: "census", With: Params{Session: session}})
	if err != nil {
		return Event{}, err
	}
	return p.last("counted"), nil
}

// once runs a role that ends by itself.
func (s *Stage) once(ctx context.Context, part Part) (*actorProcess, error) {
	p, err := s.start(part, s.Seed)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.proc.Done():
	case <-ctx.Done():
		p.kill()
		return nil, context.Cause(ctx)
	}
	if wrong := p.verdict(); len(wrong) > 0 {
		return nil, errors.New(wrong[0])
	}
	return p, nil
}

// resume lets an agent that lives finish and end, and has a fresh process take the conversation up.
func resume(l Listener, name string, talk Talk) Fault {
	talk.Model = l.URL()
	return Fault{Name: "resume " + name, Do: func(ctx context.Context, s *Stage) error {
		p, err := s.player(name)
		if err != nil {
			return err
		}
		if !p.wasKilled() {
			if err := p.await(ctx, "finished", 1); err != nil {
				return err
			}
			if told := p.part.With.Talk; told.Here > 0 && p.count("compressed") != 1 || told.Fold && p.count("folded") != agentTurns-1 {
				return fmt.Errorf("%s folded %d times and compressed %d times", name, p.count("folded"), p.count("compressed"))
			}
			p.stop(ctx)
		}
		s.gone = append(s.gone, p)
		part := p.part
		part.With.Talk = talk
		if err := s.enter(part); err != nil {
			return err
		}
		next := s.cast[name]
		if err := next.await(ctx, "finished", 1); err != nil {
			return err
		}
		if talk.Fold && next.count("folded") != 1 {
			return fmt.Errorf("the process that resumed %s folded %d times", name, next.count("folded"))
		}
		return nil
	}}
}

func (p *actorProcess) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// allFoldsHold has a fresh process look at everything that was said.
func allFoldsHold() Fault {
	return Fault{Name: "folds hold", Do: func(ctx context.Context, s *Stage) error {
		_, err := s.folds(ctx)
		return err
	}}
}

func (s *Stage) folds(ctx context.Context) (map[string]Turns, error) {
	p, err := s.once(ctx, Part{Role: "folds"})
	if err != nil {
		return nil, err
	}
	r := p.last("audited").Folds
	if r == nil {
		return nil, errors.New("folds: it said nothing")
	}
	for _, f := range r.Findings {
		err = errors.Join(err, errors.New(f))
	}
	return r.Turns, err
}

// foldsHold also sees that what was to be folded was, and nothing else.
func foldsHold() Fault {
	return Fault{Name: "folds hold", Do: func(ctx context.Context, s *Stage) error {
		turns, err := s.folds(ctx)
		gw, term := turns["gw"], turns["term"]
		if gw.Folded == 0 || gw.Last != "whole" || gw.Compacted == 0 {
			err = errors.Join(err, fmt.Errorf("gw: %+v", gw))
		}
		if term.Folded != 1 || term.Whole != agentTurns || term.Compacted == 0 {
			err = errors.Join(err, fmt.Errorf("term: %+v", term))
		}
		return err
	}}
}

// Acked gives the tokens of the turns of a conversation that were acknowledged, in no order.
func (c *Chamber) Acked(session string) ([]string, error) {
	tokens, err := readLedgers(Params{Home: c.Dir}.Ledgers(), OnFold)
	var out []string
	for token, e := range tokens {
		if e.acked && e.session == session {
			out = append(out, token)
		}
	}
	return out, err
}
