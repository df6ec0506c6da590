package sessiondb

import (
	"context"
	"fmt"
)

// ImportOptions say how a file of Export is taken in.
type ImportOptions struct {
	DryRun    bool
	Unlimited bool // lift the limits of a file (see DefaultLimits); it is still stored in one transaction
}

// Outcome says what an import did with one session.
type Outcome struct {
	Session string `json:"session"`
	Added   int64  `json:"added"`             // rows
	Present int64  `json:"present"`           // rows that were here already
	Skipped int64  `json:"skipped,omitempty"` // rows that were not taken in
	New     bool   `json:"new,omitempty"`     // the session was not here before
	Reason  string `json:"reason,omitempty"`  // why rows were skipped
}

// Moved accounts for every session and message of the source.
type Moved struct {
	Source   string    `json:"source"`
	DryRun   bool      `json:"dry_run,omitempty"`
	Sessions []Outcome `json:"sessions"`
	Added    int64     `json:"added"`
	Present  int64     `json:"present"`
	Skipped  int64     `json:"skipped"`
	Notes    []string  `json:"notes,omitempty"` // what changed on the way: a time that was none, a detached parent
	More     int64     `json:"more,omitempty"`  // notes beyond the first 200
}

// Import takes in a file that Export wrote. It checks the whole file first and stores all of it in one transaction, or nothing.
// What exists is never changed: a session that is here already is continued when its rows are the beginning of those in
// the file, and otherwise left as it is. Leases and routes are not part of a file. A nil Store is an empty one and needs DryRun.
func Import(ctx context.Context, s *Store, path string, o ImportOptions) (Moved, error) {
	return Moved{}, fmt.Errorf("import: not there yet")
}

// HermesOptions say how conversations come out of a state.db of the Python original.
type HermesOptions struct {
	Path    string // its directory, or the state.db itself; only ever read
	Scratch string // directory for a private copy of it, as large as it is; "": beside our store
	DryRun  bool
}

// ImportHermes copies sessions, messages and usage out of a Hermes state.db of any schema version, in short transactions, so it
// may run beside a daemon and be started again after a kill: what is here already is not added twice, rows that Hermes
// wrote since are. A nil Store is an empty one and needs DryRun.
func ImportHermes(ctx context.Context, s *Store, o HermesOptions) (Moved, error) {
	return Moved{}, fmt.Errorf("import hermes: not there yet")
}
