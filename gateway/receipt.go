package gateway

import (
	"slices"

	"gatewayd/internal/lastrun"
)

// Receipt is the crash receipt: how the daemon before this one ended, what was in flight, and what was decided for each of it.
type Receipt struct {
	Run      lastrun.Run `json:"run"`
	Sentence string      `json:"sentence"`
	Turns    []Recovered `json:"turns"`
	Waiting  int         `json:"waiting"` // accepted messages that had not begun
}

// Receipt gives the receipt of the last run; it is complete when Recover has returned.
func (g *Gateway) Receipt() Receipt {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.receipt
	r.Sentence, r.Turns = r.Run.String(), append([]Recovered{}, slices.Clone(r.Turns)...)
	return r
}

// note adds to the receipt.
func (g *Gateway) note(turns []Recovered, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.receipt.Turns = append(g.receipt.Turns, turns...)
	g.receipt.Waiting += waiting
}
