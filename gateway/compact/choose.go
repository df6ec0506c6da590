package compact

import (
	"slices"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// Choice narrows what is folded.
type Choice struct {
	Here int // keep the last so many exchanges and fold all before them; 0: as the rules say

	Squeeze bool // after a request that did not fit: let go of the least number of rows at the end
}

// Fold is a choice of rows to be folded. rows[from:to] go, but for the one that is carried on behind the notes.
type Fold struct {
	rows     []sessiondb.Message
	from, to int
	carried  int // place of the last message of a person, when it is in between: -1 if not
	budget   Budget
	rolling  bool
	answer   int // characters that stay of an answer in the tail; 0: all
}

// Choose gives what is to be folded of a transcript (its live rows in their order), or false when there is nothing new to fold.
func (r Rules) Choose(rows []sessiondb.Message, b Budget, c Choice) (Fold, bool) {
	f := Fold{rows: rows, budget: b, carried: -1, answer: r.TailAnswer}
	if c.Here > 0 {
		head, _ := sessiondb.KeepLast(rows, c.Here)
		f.to = len(head)
	} else {
		f.from = r.head(rows)
		f.to = max(f.from, r.tail(rows, b, c.Squeeze))
		f.carry()
	}
	return f, slices.ContainsFunc(f.Folded(), func(m sessiondb.Message) bool { return !isFolded(m) })
}

// unit gives the end of the unit that begins at i: a call with its results, or one row.
func unit(rows []sessiondb.Message, i int) int {
	end := i + 1
	if len(callsOf(rows[i])) == 0 || mutation.On("compact-cuts-inside-a-call") {
		return end
	}
	for end < len(rows) && rows[end].Role == "tool" {
		end++
	}
	return end
}

// starts gives the places at which units begin, and the end. Results without a call go with what is before them.
func starts(rows []sessiondb.Message) (at []int) {
	for i := 0; i < len(rows); i = unit(rows, i) {
		if i == 0 || rows[i].Role != "tool" || mutation.On("compact-cuts-inside-a-call") {
			at = append(at, i)
		}
	}
	return append(at, len(rows))
}

// head gives where the protected beginning ends. It ends before earlier notes, which are always written anew, and never with a
// message of a person, since one will follow.
func (r Rules) head(rows []sessiondb.Message) int {
	at := starts(rows)
	end := 0
	for i := 0; i+1 < len(at) && at[i] < r.ProtectFirst; i++ {
		if slices.ContainsFunc(rows[at[i]:at[i+1]], isFolded) {
			break
		}
		end = at[i+1]
	}
	for end > 0 && rows[end-1].Role == "user" {
		end--
	}
	return end
}

// tail gives where the protected end begins: a start of a unit, the beginning of an exchange where one is near.
func (r Rules) tail(rows []sessiondb.Message, b Budget, squeeze bool) int {
	last := r.ProtectLast
	if squeeze || Size(rows[max(0, len(rows)-last):]) > b.Trigger/2 {
		last = 1
	}
	begin := r.growTail(rows, b.Tail, last)
	if near := exchangeAt(rows, begin); near < begin && Size(rows[near:]) <= b.Tail*3/2 {
		begin = near
	}
	return r.withUser(rows, begin, b)
}

// growTail takes units from the end as long as they fit, and so many rows at least.
func (r Rules) growTail(rows []sessiondb.Message, budget, least int) int {
	at := starts(rows)
	begin, size := len(rows), 0
	for i := len(at) - 2; i >= 0; i-- {
		size += Size(rows[at[i]:at[i+1]])
		if size > budget && len(rows)-begin >= least && begin < len(rows) {
			break
		}
		begin = at[i]
	}
	return begin
}

// withUser goes back to the n-th last message of a person, where that fits twice the budget.
func (r Rules) withUser(rows []sessiondb.Message, begin int, b Budget) int {
	exchanges := sessiondb.Exchanges(rows)
	for i := len(exchanges) - 1; i >= max(0, len(exchanges)-r.MinTailUser); i-- {
		if at := exchanges[i]; at < begin && Size(rows[at:]) <= 2*b.Tail {
			begin = at
		}
	}
	return begin
}

// exchangeAt gives the beginning of the exchange that a place lies in, or the place.
func exchangeAt(rows []sessiondb.Message, place int) int {
	for i := place; i >= 0; i-- {
		if i < len(rows) && rows[i].StartsExchange() {
			return i
		}
	}
	return place
}

// carry keeps the message that is being worked on, when all behind it is too much for the tail.
func (f *Fold) carry() {
	if rest := f.rows[f.to:]; len(sessiondb.Exchanges(rest)) > 0 || len(rest) > 0 && rest[0].Role == "user" {
		return
	}
	for i := f.to - 1; i >= f.from; i-- {
		if f.rows[i].StartsExchange() {
			f.carried = i
			return
		}
	}
}

// Folded gives the rows that go.
func (f Fold) Folded() []sessiondb.Message {
	if f.carried < 0 {
		return f.rows[f.from:f.to]
	}
	return append(slices.Clone(f.rows[f.from:f.carried]), f.rows[f.carried+1:f.to]...)
}

// Rolling reports whether it is a step of a rolling compaction.
func (f Fold) Rolling() bool { return f.rolling }
