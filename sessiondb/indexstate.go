package sessiondb

import (
	"context"
	"slices"

	"gatewayd/internal/sqlite"
)

// countedBehind is how far IndexStates counts rows: beyond it the exact number tells nobody anything.
const countedBehind = 10_000

// IndexState says how far a search index is.
type IndexState struct {
	Name   string `json:"name"`
	Mark   int64  `json:"mark"`         // holds the rows up to this id
	Behind int    `json:"behind"`       // rows above the mark, at most 10,000 counted
	Stale  bool   `json:"stale"`        // out of use until it is built anew; searches scan
	By     string `json:"by,omitempty"` // who is building it anew
}

// IndexStates is for health and doctor.
func (s *Store) IndexStates(ctx context.Context) ([]IndexState, error) {
	out := make([]IndexState, len(indexes))
	err := s.file.Read(ctx, func(c *sqlite.Conn) error {
		held, err := readTicket(c)
		if err != nil {
			return err
		}
		for i, ix := range indexes {
			mark, stale, err := ix.readMark(c)
			if err != nil {
				return err
			}
			_, behind, err := ix.behind(c, countedBehind)
			if err != nil {
				return err
			}
			out[i] = IndexState{Name: ix.table, Mark: mark, Behind: behind, Stale: stale}
			if slices.Contains(held.Tables, ix.table) {
				out[i].By = held.Holder.String()
			}
		}
		return nil
	})
	return out, err
}
