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

// MarshalJSON adds the note that a person reads.
func (r Released) MarshalJSON() ([]byte, error) {
	return json.Marshal(releasedWire{
		Status: r.Status, Now: r.Now, WorkerPID: opt(r.Worker), Descendants: append([]string{}, r.Descendants...), Note: opt(r.Note()),
	})
}

// Note says what is still to come: a card whose worker lives is released when that has ended, and not before. It is empty
// where the card was released at once.
func (r Released) Note() string {
	if r.Now {
		return ""
	}
	return fmt.Sprintf("it is released as %s when worker %d has ended, which the dispatcher sees to; "+
		"if no gatewayd dispatches this board (`gatewayd status`), start one with `gatewayd --foreground`", r.Status, r.Worker)
}
