package chamber

import (
	"slices"

	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// protected is how many rows at the end of a conversation are never folded.
const protected = 4

// oneFold is a choice of rows to be folded, before there is a summary of them.
type oneFold struct {
	from, to int // rows[from:to] are folded
}

// foldOldest chooses what followed the oldest question that has no summary yet. The question stays as it is.
func foldOldest(rows []sessiondb.Message) (oneFold, bool) {
	starts := append(sessiondb.Exchanges(rows), len(rows))
	for i, start := range starts[:len(starts)-1] {
		end := starts[i+1]
		if end > len(rows)-protected {
			break
		}
		if !slices.ContainsFunc(rows[start:end], isSummary) && end-start > 1 {
			return oneFold{from: start + 1, to: end}, true
		}
	}
	return oneFold{}, false
}

func isSummary(m sessiondb.Message) bool { return m.Kind == sessiondb.KindSummary }

// request is what the summariser is asked. It offers no tools.
func (f oneFold) request() provider.Request {
	return provider.Request{System: "Summarise.", Messages: []provider.Message{{Role: "user", Content: "Summarise what was found."}}}
}

// plan puts the summary in the place of what was chosen.
func (f oneFold) plan(l sessiondb.Lease, rows []sessiondb.Message, summary string) sessiondb.Compaction {
	c := sessiondb.Compaction{Lease: l, Seen: sessiondb.See(rows)}
	for _, m := range rows[f.from:f.to] {
		c.Covered = append(c.Covered, m.ID)
	}
	c.Rows = append(c.Rows, sessiondb.CompactedRow{New: sessiondb.NewMessage{Role: "assistant", Content: summary, Kind: sessiondb.KindSummary}})
	for _, m := range rows[f.to:] {
		c.Rows = append(c.Rows, sessiondb.CompactedRow{Keep: m.ID})
	}
	return c
}
