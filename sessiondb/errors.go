package sessiondb

import (
	"errors"
	"fmt"
	"strings"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// What callers branch on. They arrive wrapped in a *problem.Error that a person can read.
var (
	ErrLeaseLost      = errors.New("lease lost")
	ErrLeaseHeld      = errors.New("lease held")
	ErrSessionMissing = errors.New("session missing")
	ErrSessionEnded   = errors.New("session ended")
	ErrRowChanged     = errors.New("row changed")
	ErrStalePlan      = errors.New("stale plan")
	ErrRewindTarget   = errors.New("rewind target unavailable")
	ErrNewerSchema    = errors.New("newer schema")
	ErrForeignFile    = errors.New("foreign file")
	ErrReadOnly       = errors.New("store is read-only")
	ErrSpooled        = errors.New("rows are in the spool")
)

// mark makes a problem recognisable by errors.Is and adds no words: the problem says everything in full already.
type mark struct{ sentinel error }

func (mark) Error() string   { return "" }
func (m mark) Unwrap() error { return m.sentinel }

func sessionThing(id string) string { return fmt.Sprintf("session %s", id) }

func errSessionMissing(id string) error {
	return &problem.Error{
		Kind: problem.NotFound, Thing: sessionThing(id), What: "does not exist",
		Fate: "nothing was written", Remedy: "list the existing ones with `gatewayd sessions list`", Err: mark{ErrSessionMissing},
	}
}

func errSessionEnded(id, reason string) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: sessionThing(id), What: fmt.Sprintf("has ended (%s)", reason),
		Fate: "the new rows were not written", Remedy: "start a new session, or reopen this one", Err: mark{ErrSessionEnded},
	}
}

func errLeaseLost(l Lease) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: sessionThing(l.Session), What: fmt.Sprintf("is no longer held by this %s", l.Kind),
		Fate: "the new rows were not written", Remedy: "another process continued the conversation; send the message again", Err: mark{ErrLeaseLost},
	}
}

// errSpooled tells a caller whose rows the store did not take that they are safe, and that this is not an acknowledgement.
func errSpooled(session string, spool *Spool, cause error) error {
	return &problem.Error{
		Kind: problem.Unavailable, Thing: sessionThing(session), What: "could not be stored: " + sentenceOf(cause),
		Fate:   "the new rows are not acknowledged; they are kept in " + spool.Dir() + " and are stored from there when the store is back",
		Remedy: remedyOf(cause), Err: mark{ErrSpooled},
	}
}

// errNotSpooled is the worst case: neither the store nor the spool took the rows.
func errNotSpooled(session string, cause, spool error) error {
	return &problem.Error{
		Kind: problem.KindOf(cause), Thing: sessionThing(session), What: "could not be stored: " + sentenceOf(cause),
		Fate: "the new rows were not written, and not kept beside it either: " + sentenceOf(spool), Remedy: remedyOf(cause), Err: said{cause},
	}
}

// said keeps a cause for errors.Is whose words are in the problem already.
type said struct{ error }

func (said) Error() string   { return "" }
func (s said) Unwrap() error { return s.error }

// sentenceOf is what is wrong, without the fate and the remedy that belong to another situation.
func sentenceOf(err error) string {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return strings.TrimSpace(p.Thing + " " + p.What)
	}
	return err.Error()
}

func remedyOf(err error) string {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p.Remedy
	}
	return "see `gatewayd doctor`"
}

func errInvalid(thing, format string, args ...any) error {
	return &problem.Error{Kind: problem.Invalid, Thing: thing, What: fmt.Sprintf(format, args...), Fate: "nothing was changed"}
}

// corrupt reports whether err says that pages are damaged.
func corrupt(err error) bool { return err != nil && sqlite.ClassOf(err) == sqlite.Corrupt }
