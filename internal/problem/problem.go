// Package problem is the one error that a person reads. It names the thing, says what became of the data,
// and what to do next, so that no room has to invent its own wording rules.
//
// Rooms return *Error at their edge, wrapping the cause. The HTTP API maps Kind to a status in one table, the
// command line maps it to an exit code in another; nothing else may decide by message text.
package problem

import (
	"errors"
	"fmt"
	"strings"
)

// Kind says what sort of trouble it is.
type Kind string

const (
	Invalid     Kind = "invalid"     // the caller's input is wrong; nothing was changed
	NotFound    Kind = "not_found"   // the named thing does not exist
	Conflict    Kind = "conflict"    // the thing is in a state that forbids this
	Denied      Kind = "denied"      // policy forbids this
	Busy        Kind = "busy"        // held by somebody else for now; trying again later may work
	Unavailable Kind = "unavailable" // a part that is needed is down
	Damaged     Kind = "damaged"     // a file is not what it must be; it was left as it is
	Full        Kind = "full"        // no space, no descriptors, no memory
	Config      Kind = "config"      // the configuration is wrong; restarting does not help
	NotRunning  Kind = "not_running" // the daemon is not running
	Restart     Kind = "restart"     // the process wants to be started again
	Interrupted Kind = "interrupted" // the caller or a signal ended it
	Internal    Kind = "internal"    // a bug of ours
)

// Error is one trouble. Thing, Fate and Remedy are short clauses without a final stop; Err is the cause
// for logs and errors.Is, and is shown only where it adds something.
type Error struct {
	Kind   Kind
	Thing  string // what it is about: "board default (/home/a/.gatewayd/kanban.db)"
	What   string // what is wrong with it: "is not a SQLite database"
	Fate   string // what happened to the data: "the file was left as it is"
	Remedy string // what the reader should do: "copy it away and put a good copy in its place"
	Field  string // the input that is wrong, as JSON calls it; empty: no single one
	Err    error
}

// Error gives the whole line: thing, what, cause, fate, remedy.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(e.Thing + " " + e.What))
	if e.Err != nil && !strings.Contains(e.What, e.Err.Error()) {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	for _, clause := range []string{e.Fate, e.Remedy} {
		if clause != "" {
			b.WriteString("; " + clause)
		}
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf gives the kind of the outermost Error in the chain, or Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether the outermost Error in the chain has this kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
