package chamber

import (
	"slices"
	"strings"

	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// protected is how many rows at the end of a conversation are never folded.
const protected = 4

// folding is a choice of rows to be folded, before there is a summary of them.
type folding struct {
	from, to int                    // rows[from:to] are folded
	asked    []sessiondb.NewMessage // what stands before the summary in their place: what was asked in them, word for word
}

// foldOldest chooses what followed the oldest question that has no summary yet. The question stays as it is.
func foldOldest(rows []sessiondb.Message) (folding, bool) {
	starts := append(sessiondb.Exchanges(rows), len(rows))
	for i, start := range starts[:len(starts)-1] {
		end := starts[i+1]
		if end > len(rows)-protected {
			break
		}
		if !slices.ContainsFunc(rows[start:end], isSummary) && end-start > 1 {
			return folding{from: start + 1, to: end}, true
		}
	}
	return folding{}, false
}

func isSummary(m sessiondb.Message) bool { return m.Kind == sessiondb.KindSummary }

// foldHere chooses everything before the last two exchanges, as a person asks for. What was asked in it goes on in one
// row that is sent and not shown.
func foldHere(rows []sessiondb.Message) (folding, bool) {
	head, _ := sessiondb.KeepLast(rows, 2)
	var asked []string
	for _, m := range head {
		if m.Role == "user" {
			asked = append(asked, m.Content)
		}
	}
	if len(asked) == 0 {
		return folding{}, false
	}
	row := sessiondb.NewMessage{Role: "user", Content: strings.Join(asked, "\n\n"), Kind: sessiondb.KindModelOnly}
	return folding{to: len(head), asked: []sessiondb.NewMessage{row}}, true
}

// request is what the summariser is asked. It offers no tools.
func (f folding) request() provider.Request {
	return provider.Request{System: "Summarise.", Messages: []provider.Message{{Role: "user", Content: "Summarise what was found."}}}
}

// plan puts the summary in the place of what was chosen.
func (f folding) plan(l sessiondb.Lease, rows []sessiondb.Message, summary string) sessiondb.Compaction {
	c := sessiondb.Compaction{Lease: l, Seen: sessiondb.See(rows)}
	for _, m := range rows[f.from:f.to] {
		c.Covered = append(c.Covered, m.ID)
	}
	for _, m := range f.asked {
		c.Rows = append(c.Rows, sessiondb.CompactedRow{New: m})
	}
	c.Rows = append(c.Rows, sessiondb.CompactedRow{New: sessiondb.NewMessage{Role: "assistant", Content: summary, Kind: sessiondb.KindSummary}})
	for _, m := range rows[f.to:] {
		c.Rows = append(c.Rows, sessiondb.CompactedRow{Keep: m.ID})
	}
	return c
}
