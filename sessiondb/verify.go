package sessiondb

import (
	"context"
	"fmt"
	"time"
)

// Level says what a finding means for the one who reads it.
type Level string

const (
	Damage Level = "damage" // a promise of the store is broken
	Notice Level = "notice" // unusual but sound: the store mends it by itself, or it only looks odd
)

// Finding is one thing that an audit found. Code is stable: scripts and tests may compare it.
type Finding struct {
	Code    string `json:"code"`
	Level   Level  `json:"level"`
	Session string `json:"session,omitempty"`
	Row     int64  `json:"row,omitempty"` // id of the message, 0 when it is not about one
	What    string `json:"what"`
	Remedy  string `json:"remedy"`
}

func (f Finding) String() string {
	where := "store"
	if f.Session != "" {
		where = sessionThing(f.Session)
	}
	if f.Row != 0 {
		where += fmt.Sprintf(" row %d", f.Row)
	}
	return fmt.Sprintf("%s: %s: %s; %s", f.Code, where, f.What, f.Remedy)
}

// Running is a lease whose holder lives: what its session lacks at the end is being written.
type Running struct {
	Session string    `json:"session"`
	Kind    LeaseKind `json:"kind"`
	Holder  Holder    `json:"holder"`
	Expires time.Time `json:"expires"`
}

// Audit is what Verify found. Findings beyond VerifyOptions.MaxFindings are only counted, in More.
type Audit struct {
	Sessions int64     `json:"sessions"`
	Messages int64     `json:"messages"`
	Live     int64     `json:"live"`
	Running  []Running `json:"running"`
	Findings []Finding `json:"findings"`
	Damaged  int64     `json:"damaged"` // findings of level damage, those in More too
	More     int64     `json:"more,omitempty"`
}

// OK reports that no promise is broken; there may be notices.
func (a Audit) OK() bool { return a.Damaged == 0 }

// VerifyOptions choose what is audited. The zero value audits every session, what belongs to none, the indexes and the
// structure of the file by quick_check.
type VerifyOptions struct {
	Sessions    []string // only these, and nothing that belongs to no session; an unknown one is a NotFound problem
	Deep        bool     // integrity_check in place of quick_check, and every uid compared: minutes for gigabytes
	RowsOnly    bool     // leave the structure of the file out
	MaxFindings int      // 0: 1000
}

// Verify audits rows, flags, counters, references and indexes. It only reads, each session in a snapshot of its own, so
// it may run beside any number of writers; of what is being written it says Running and not damage. The structure check
// holds one snapshot for as long as it takes to read the file. An error means that the audit itself could not be done.
func Verify(ctx context.Context, s *Store, o VerifyOptions) (Audit, error) {
	return Audit{}, fmt.Errorf("verify: not there yet")
}
