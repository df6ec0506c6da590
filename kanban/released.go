package kanban

import (
	"encoding/json"
	"fmt"
)

type releasedWire struct {
	Status      Status   `json:"status"`
	Now         bool     `json:"now"`
	WorkerPID   *int     `json:"worker_pid"`
	Descendants []string `json:"descendants"`
	Note        *string  `json:"note"`
}

// JSONShape is a value of the type that MarshalJSON writes.
func (Released) JSONShape() any { return releasedWire{} }

// MarshalJSON adds the note that a person reads.
func (r Released) MarshalJSON() ([]byte, error) {
	return json.Marshal(releasedWire{
		Status: r.Status, Now: r.Now, WorkerPID: opt(r.Worker), Descendants: append([]string{}, r.Descendants...), Note: opt(r.Note()),
	})
}

// Note says what is still to come: a card whose worker lives is released when that has ended, and not before. It is empty
// where nothing is.
func (r Released) Note() string {
	const otherwise = "if no gatewayd dispatches this board (`gatewayd status`), start one with `gatewayd --foreground`"
	switch {
	case !r.Now:
		return fmt.Sprintf("the card is released when worker %d has ended, which the dispatcher sees to; %s", r.Worker, otherwise)
	case r.Worker != 0:
		return fmt.Sprintf("worker %d still runs; the dispatcher ends it; %s", r.Worker, otherwise)
	}
	return ""
}
