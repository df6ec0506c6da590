package sessiondb

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome says what an import did with one session.
type Outcome struct {
	Session string `json:"session"`
	Added   int64  `json:"added"`             // rows
	Present int64  `json:"present"`           // rows that were here already
	Skipped int64  `json:"skipped,omitempty"` // rows that were not taken in
	New     bool   `json:"new,omitempty"`     // the session was not here before
	Reason  string `json:"reason,omitempty"`  // why rows were skipped
}

// skip counts rows that were not taken in, and why.
func (o *Outcome) skip(n int64, format string, args ...any) {
	o.Skipped += n
	reason := fmt.Sprintf(format, args...)
	if !slices.Contains(strings.Split(o.Reason, "; "), reason) {
		o.Reason = strings.TrimPrefix(o.Reason+"; "+reason, "; ")
	}
}

// Moved accounts for every session and message of the source.
type Moved struct {
	Source   string    `json:"source"`
	DryRun   bool      `json:"dry_run,omitempty"`
	Sessions []Outcome `json:"sessions"`
	New      int64     `json:"new"` // sessions
	Added    int64     `json:"added"`
	Present  int64     `json:"present"`
	Skipped  int64     `json:"skipped"`
	Orphans  int64     `json:"orphans,omitempty"` // of the skipped: rows of sessions that the source does not hold
	Notes    []string  `json:"notes,omitempty"`   // what changed on the way: a time that was none, a detached parent
	More     int64     `json:"more,omitempty"`    // notes beyond the first 200
}

const maxNotes = 200

func (m *Moved) note(format string, args ...any) {
	if len(m.Notes) >= maxNotes {
		m.More++
		return
	}
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

func (m *Moved) add(o Outcome) {
	m.Sessions = append(m.Sessions, o)
	m.Added, m.Present, m.Skipped = m.Added+o.Added, m.Present+o.Present, m.Skipped+o.Skipped
	if o.New {
		m.New++
	}
}
