package sqlite

import (
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

// readOnly is the answer of Options.Stale that lets a file be read and nothing else.
type readOnly struct{ why error }

func (r *readOnly) Error() string { return r.why.Error() }
func (r *readOnly) Unwrap() error { return r.why }

// AsReadOnly is what Options.Stale answers for a file that it can read and must not change: one that a newer program
// wrote. The File then opens with query_only on every connection; its journal mode stays what it is, nothing is migrated
// or checkpointed, and every write and every maintenance operation fails with why, which should be a *problem.Error.
func AsReadOnly(why error) error { return &readOnly{why} }

// ReadOnly says why nothing is written to this file; nil where that is not so.
func (f *File) ReadOnly() error {
	if f.readOnly == nil {
		return nil
	}
	return f.readOnly.err
}

// takeReadOnly makes the answer stick, and reports whether it was this one.
func (f *File) takeReadOnly(err error) bool {
	answer, ok := errors.AsType[*readOnly](err)
	if ok {
		f.readOnly = &halt{class: ReadOnly, err: &classified{class: ReadOnly, err: answer.why}}
	}
	return ok
}

// untouched is the journal of a file that is only read and is not in WAL.
func (f *File) untouched() Journal {
	return Journal{Mode: "delete", Reason: "left as it is: the file is only read"}
}

// beyond explains a query that a newer file cannot answer: what it asks for has another name there, or is gone.
func (f *File) beyond(err error) error {
	if f.readOnly == nil || !errors.Is(err, sqlite3.ERROR) {
		return err
	}
	return &problem.Error{
		Kind: problem.Config, Thing: f.thing(), What: fmt.Sprintf("has not what this needs (%v)", err),
		Fate: "it was left as it is", Remedy: remedyOf(f.readOnly.err), Err: err,
	}
}

func remedyOf(err error) string {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p.Remedy
	}
	return ""
}
