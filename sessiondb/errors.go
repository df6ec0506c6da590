package sessiondb

import (
	"errors"
	"fmt"

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

func errInvalid(thing, format string, args ...any) error {
	return &problem.Error{Kind: problem.Invalid, Thing: thing, What: fmt.Sprintf(format, args...), Fate: "nothing was changed"}
}

// corrupt reports whether err says that pages are damaged.
func corrupt(err error) bool { return err != nil && sqlite.ClassOf(err) == sqlite.Corrupt }
