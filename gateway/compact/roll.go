package compact

import (
	"fmt"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

const (
	rollMost  = 1500 // tokens of a rolling summary
	rollLeast = 400  // tokens that are worth a call of a model; smaller exchanges wait for the next

	rollBehind = 200 // rows that are worth being written anew for one exchange
)

// segment is a run of rows that begins with a message of a person, or with what people wrote in a folded part.
type segment struct {
	from, to int
	pair     bool // what people wrote and the notes about it, and nothing else
	loose    bool // rows that belong to no exchange
}

// segments cuts a transcript before each message that begins an exchange.
func segments(rows []sessiondb.Message) (out []segment) {
	begins := func(m sessiondb.Message) bool { return m.StartsExchange() || IsAsked(m) }
	for i := 0; i < len(rows); {
		end := i + 1
		for end < len(rows) && !begins(rows[end]) {
			end++
		}
		s := segment{from: i, to: end}
		s.pair = end-i == 2 && begins(rows[i]) && IsNotes(rows[i+1])
		s.loose = !s.pair && (!rows[i].StartsExchange() || holdsFolded(rows[i:end]))
		out, i = append(out, s), end
	}
	return out
}

func holdsFolded(rows []sessiondb.Message) bool {
	for _, m := range rows {
		if isFolded(m) {
			return true
		}
	}
	return false
}

// Roll gives the oldest exchange that is not folded yet and lies outside the protected rows, with the notes of those before it,
// or false when there is none. skip names exchanges that are left alone; the notes before one are never touched again. Where the
// last step left off is read from the rows. A step writes all rows behind it anew, so where those are many it takes several exchanges
// at once, or a long conversation in which this is switched on would be copied once for each of them.
func (r Rules) Roll(rows []sessiondb.Message, b Budget, skip func(key string) bool) (f Fold, some bool) {
	head, tail := r.head(rows), r.rollTail(rows, b)
	chain, from, size := -1, -1, 0
	for _, s := range segments(rows) {
		alone := s.pair || s.loose || s.to-s.from < 2 || s.from >= head && skip(Key(rows[s.from]))
		switch {
		case s.from < head:
			continue
		case s.to > tail, some && alone:
			return f, some
		case s.pair && IsRolling(rows[s.from+1]):
			chain, from, size = s.from, -1, 0
			continue
		case alone:
			chain, from, size = -1, -1, 0
			continue
		}
		if from < 0 {
			from = s.from
		}
		if size += Size(rows[s.from:s.to]); size < rollLeast {
			continue
		}
		f, some = Fold{rows: rows, from: from, to: s.to, carried: -1, budget: b, rolling: true}, true
		if chain >= 0 {
			f.from = chain
		}
		if len(rows)-s.to <= rollBehind || size >= b.Aux/2 || mutation.On("rolling-copies-a-long-tail-each-time") {
			return f, some
		}
	}
	return f, some
}

// rollTail is the tail of a rolling compaction: no larger than that of a full one, and always at the beginning of an exchange.
func (r Rules) rollTail(rows []sessiondb.Message, b Budget) int {
	begin := r.growTail(rows, b.Roll, r.ProtectLast)
	if exchanges := sessiondb.Exchanges(rows); len(exchanges) > 0 {
		begin = min(begin, exchanges[len(exchanges)-1])
	}
	return exchangeAt(rows, begin)
}

// Key names an exchange by its first row, also when compactions have copied it since.
func Key(m sessiondb.Message) string { return fmt.Sprintf("o%d", m.OriginID) }

// Exchange names what a step of a rolling compaction folds.
func (f Fold) Exchange() string {
	for _, m := range f.rows[f.from:f.to] {
		if m.StartsExchange() {
			return Key(m)
		}
	}
	return ""
}

// Defrag gives the rolling notes of a transcript that have become too long, to be written anew, or false.
func (r Rules) Defrag(rows []sessiondb.Message, b Budget, skip func(key string) bool) (Fold, bool) {
	for i := len(rows) - 1; i >= 0; i-- {
		if !IsRolling(rows[i]) {
			continue
		}
		if Tokens(rows[i].Content) < r.DefragTokens || skip(Key(rows[i])) {
			return Fold{}, false
		}
		return Fold{rows: rows, from: i, to: i + 1, carried: -1, budget: b, rolling: true}, true
	}
	return Fold{}, false
}

// Turns counts the exchanges that a transcript stands for, folded or not, as far back as its rows tell.
func Turns(rows []sessiondb.Message) int {
	n := len(sessiondb.Exchanges(rows))
	for _, m := range rows {
		if IsAsked(m) {
			a := readAsked(m)
			n += a.Left + len(a.Messages)
		}
	}
	return n
}
