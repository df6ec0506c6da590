package gateway

import (
	"errors"
	"time"

	"gatewayd/gateway/compact"
	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// roll folds the oldest exchange that is not folded yet, or writes the rolling notes anew when they have become long.
func (p *pass) roll() (done folded) {
	defer func() {
		if done.word != "" {
			p.report(done)
		}
	}()
	if _, _, some := p.nextRoll(sessiondb.CompactionState{}); !some {
		return done // before any lease: most turns fold nothing
	}
	release, done, ok := p.take()
	if !ok {
		switch done.word {
		case persistFailed:
			done.word = noWatermark
		case stale:
			done.word = staleGeneration
		}
		return done
	}
	defer release()
	f, defrag, some := p.nextRoll(p.state)
	if !some {
		return p.ended(folded{word: exchangeSkipped})
	}
	return p.ended(p.rollOne(f, defrag))
}

func (p *pass) nextRoll(st sessiondb.CompactionState) (f compact.Fold, defrag, some bool) {
	rules := p.tuned.Compaction.Rules
	skip := func(key string) bool { return compact.Skips(st, key) }
	if f, some = rules.Defrag(p.rows, p.budget, skip); some {
		return f, true, true
	}
	f, some = rules.Roll(p.rows, p.budget, skip)
	return f, false, some
}

func (p *pass) rollOne(f compact.Fold, defrag bool) folded {
	if !compact.May(p.state, time.Now()) {
		return folded{word: coolingDown}
	}
	text, err := p.ask(f, p.roller())
	if p.orInterrupted("") != "" {
		return folded{word: interrupted, asked: true, err: err}
	}
	if err != nil {
		return p.rollFailed(f, defrag, err)
	}
	plan := f.Plan(text)
	if plan.Grows() {
		p.remember(compact.Missed(p.state, f.Exchange(), p.rows))
		return folded{word: map[bool]string{true: defragFailed, false: wouldGrow}[defrag], asked: true}
	}
	done := p.commit(plan, folded{word: map[bool]string{true: defragged, false: absorbed}[defrag], asked: true})
	if done.word == stale {
		done.word = staleGeneration
	}
	return done
}

// rollFailed counts a failure: against the exchange when its summary came to nothing, against all when the model did not answer.
func (p *pass) rollFailed(f compact.Fold, defrag bool, err error) folded {
	done := folded{word: summarizeFailed, asked: true, err: err}
	if defrag {
		done.word = defragFailed
	}
	p.state = compact.Missed(p.state, f.Exchange(), p.rows)
	if _, unanswered := errors.AsType[*provider.Error](err); unanswered {
		p.state = compact.Failed(p.state, time.Now(), soft(err), reason(err))
	}
	p.remember(p.state)
	return done
}

func (p *pass) roller() provider.Model {
	if p.tuned.Compaction.RollModel != nil {
		return p.tuned.Compaction.RollModel
	}
	return p.summariser()
}
