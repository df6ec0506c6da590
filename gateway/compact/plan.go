package compact

import (
	"fmt"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// Plan is what is to be committed, and what it wins.
type Plan struct {
	Rows    []sessiondb.CompactedRow
	Covered []int64
	Before  int // estimated tokens of the rows that go
	After   int // of the rows that are written in their place
}

// Grows reports a plan after which the conversation is no smaller.
func (p Plan) Grows() bool { return p.After >= p.Before && !mutation.On("compact-accepts-growth") }

// Saved is what it wins, in tokens.
func (p Plan) Saved() int { return p.Before - p.After }

// Compaction gives it to the store. rows are the transcript on which it was made.
func (p Plan) Compaction(l sessiondb.Lease, rows []sessiondb.Message) sessiondb.Compaction {
	return sessiondb.Compaction{Lease: l, Seen: sessiondb.See(rows), Rows: p.Rows, Covered: p.Covered}
}

// News is how many rows are new.
func (p Plan) News() (n int) {
	for _, r := range p.Rows {
		if r.Keep == 0 {
			n++
		}
	}
	return n
}

func (p *Plan) write(m sessiondb.NewMessage) {
	p.Rows = append(p.Rows, sessiondb.CompactedRow{New: m})
	p.After += newTokens(m)
}

func (p *Plan) keep(rows ...sessiondb.Message) {
	for _, m := range rows {
		p.Rows = append(p.Rows, sessiondb.CompactedRow{Keep: m.ID})
	}
}

func (p *Plan) cover(rows ...sessiondb.Message) {
	for _, m := range rows {
		p.Covered = append(p.Covered, m.ID)
	}
	p.Before += Size(rows)
}

// Plan puts a summary in the place of what was chosen: what people wrote, the notes, the message that is being worked on, and
// the rest as it is.
func (f Fold) Plan(summary string) Plan {
	var p Plan
	folded := f.Folded()
	said := gather(folded)
	if f.rolling && len(said.Messages) == 1 && said.Left == 0 && folded[0].StartsExchange() {
		folded = folded[1:] // the one question stays where it is
	} else {
		if !f.rolling {
			said = said.within(f.budget.Asked)
		}
		if len(said.Messages)+said.Left > 0 || f.meets("assistant", f.from-1) {
			p.write(said.row())
		}
	}
	p.cover(folded...)
	p.write(notesRow(summary, f.rolling))
	if f.carried >= 0 {
		p.keep(f.rows[f.carried])
	} else if f.meets("assistant", f.to) {
		p.write(asked{}.row())
	}
	for _, m := range f.rows[f.to:] {
		if short, cut := f.shorten(m); cut {
			p.cover(m)
			p.write(short)
		} else {
			p.keep(m)
		}
	}
	return p
}

// shorten gives what is sent in place of an answer in the tail that is longer than it may be. The answer itself goes on being shown
// and found. What asks for tools is never cut.
func (f Fold) shorten(m sessiondb.Message) (short sessiondb.NewMessage, cut bool) {
	said := []rune(Sent(m))
	if f.answer <= 0 || f.rolling || m.Role != "assistant" || len(m.ToolCalls) > 0 || isFolded(m) || m.Kind == sessiondb.KindModelOnly || len(said) <= f.answer {
		return short, false
	}
	return sessiondb.NewMessage{
		TurnID: m.TurnID, Role: m.Role, Kind: sessiondb.KindModelOnly, FinishReason: finishShort, CreatedAt: m.CreatedAt,
		Content: fmt.Sprintf("%s… [the answer went on; %d more characters are archived]", string(said[:f.answer]), len(said)-f.answer),
	}, true
}

// meets reports whether the row at a place would stand beside a new one of its role. Before the first row there is none, and a
// conversation does not begin with an answer.
func (f Fold) meets(role string, place int) bool {
	switch {
	case f.rolling:
		return false
	case place < 0:
		return true
	case place >= len(f.rows):
		return false
	}
	return f.rows[place].Role == role && (place >= f.to || len(callsOf(f.rows[place])) == 0)
}
