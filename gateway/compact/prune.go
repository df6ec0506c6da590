package compact

import (
	"fmt"
	"regexp"
	"strings"

	"gatewayd/sessiondb"
)

const (
	sameLeast = 200 // characters; a shorter result is no longer than what would stand for it
	stubBegin = 160 // characters of a result that its stub shows
)

// Stubs is a plan that makes one line of each big result before a place, without a summary. It is none where too little is won.
// A result that stands again behind it word for word is big whatever its length.
func (r Rules) Stubs(rows []sessiondb.Message, before int) (Plan, bool) {
	return stubs(rows, before, r.PruneMinChars, r.PruneMinReclaim)
}

// LastResort makes stubs of all results but the last round's, when a request does not fit and there is nothing left to fold.
func LastResort(rows []sessiondb.Message) (Plan, bool) {
	at := starts(rows)
	return stubs(rows, at[max(0, len(at)-2)], 1000, 1)
}

// Tail gives where those results begin that no stub is made of: what fits the tail's budget, wherever an exchange began.
func (r Rules) Tail(rows []sessiondb.Message, b Budget) int { return r.growTail(rows, b.Tail, 1) }

func stubs(rows []sessiondb.Message, before, least, reclaim int) (Plan, bool) {
	var p Plan
	again := repeated(rows)
	for i, m := range rows {
		if i < before && m.Role == "tool" && m.ToolName != todoTool && !isStub(m) && (len(m.Content) >= least || again[i]) {
			p.cover(m)
			p.write(stubRow(m, again[i]))
		} else if len(p.Rows) > 0 {
			p.keep(m)
		}
	}
	return p, len(p.Covered) > 0 && p.Saved() >= reclaim
}

// isStub reports a result that stands in for a bigger one: it is sent and not shown.
func isStub(m sessiondb.Message) bool { return m.Role == "tool" && m.Kind == sessiondb.KindModelOnly }

func stubRow(m sessiondb.Message, again bool) sessiondb.NewMessage {
	return sessiondb.NewMessage{
		TurnID: m.TurnID, Role: "tool", Kind: sessiondb.KindModelOnly, Content: stub(m, again), ToolCallID: m.ToolCallID, ToolName: m.ToolName,
		Effect: m.Effect, CreatedAt: m.CreatedAt,
	}
}

// stub is one line for a result.
func stub(m sessiondb.Message, again bool) string {
	text := strings.Join(strings.Fields(plain(Sent(m))), " ")
	if again {
		return fmt.Sprintf("[the same result of %s stands again further on]", m.ToolName)
	}
	if runes := []rune(text); len(runes) > stubBegin {
		text = string(runes[:stubBegin]) + "…"
	}
	return fmt.Sprintf("[result of %s, %d characters, archived; it begins: %s]", m.ToolName, len(m.Content), text)
}

// repeated gives the places of results that stand again, word for word, behind them.
func repeated(rows []sessiondb.Message) map[int]bool {
	seen, again := map[string]bool{}, map[int]bool{}
	for i := len(rows) - 1; i >= 0; i-- {
		m := rows[i]
		if m.Role != "tool" || len(m.Content) < sameLeast {
			continue
		}
		again[i] = seen[m.Content]
		seen[m.Content] = true
	}
	return again
}

var (
	dataURL = regexp.MustCompile(`data:[\w/+.-]+;base64,[A-Za-z0-9+/=\s]{16,}`)
	base64s = regexp.MustCompile(`[A-Za-z0-9+/]{256,}={0,2}`)
)

// plain takes out what no reader can use: pictures and other bytes written as text.
func plain(text string) string {
	text = dataURL.ReplaceAllStringFunc(text, func(found string) string { return fmt.Sprintf("[%d characters of data]", len(found)) })
	return base64s.ReplaceAllStringFunc(text, func(found string) string {
		if strings.ContainsAny(found, "0123456789") && strings.ContainsAny(found, "abcdefghijklmnopqrstuvwxyz") && strings.ContainsAny(found, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return fmt.Sprintf("[%d characters of data]", len(found))
		}
		return found
	})
}
