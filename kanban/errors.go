package kanban

import (
	"errors"
	"fmt"
	"strconv"

	"gatewayd/internal/problem"
)

// What a verb may answer besides trouble with the file. Each arrives inside a *problem.Error.
var (
	ErrNotFound     = errors.New("not found")
	ErrConflict     = errors.New("not possible in this state")
	ErrNotReady     = fmt.Errorf("not ready: %w", ErrConflict)
	ErrParentsOpen  = fmt.Errorf("parents are not done: %w", ErrConflict)
	ErrTaken        = fmt.Errorf("claimed by another: %w", ErrConflict)
	ErrLiveClaim    = fmt.Errorf("a live worker holds it: %w", ErrConflict)
	ErrPhantomCards = errors.New("cards that do not exist or are not this card's")
	ErrNoEvidence   = errors.New("nothing to show for it")
	// ErrStaleRun is the fence: the caller acts for a run that is not the current one. It must stop.
	ErrStaleRun = fmt.Errorf("run is superseded: %w", ErrConflict)
	// ErrDenied: the caller is a worker and asks for what only people may do.
	ErrDenied = errors.New("not for workers")
)

// mark makes a problem recognisable by errors.Is and adds no words: the problem says everything in full already.
type mark struct{ sentinel error }

func (mark) Error() string   { return "" }
func (m mark) Unwrap() error { return m.sentinel }

const unchanged = "nothing was changed"

func cardThing(id string) string { return "card " + quote(id) }

func runThing(run RunID) string { return "run " + strconv.FormatInt(int64(run), 10) }

func missingCard(id string) error {
	return &problem.Error{
		Kind: problem.NotFound, Thing: cardThing(id), What: "is not on this board", Fate: unchanged,
		Remedy: "list the cards with `gatewayd kanban list`, or name another board with --board", Err: mark{ErrNotFound},
	}
}

func conflict(id string, sentinel error, format string, args ...any) *problem.Error {
	return &problem.Error{Kind: problem.Conflict, Thing: cardThing(id), What: fmt.Sprintf(format, args...), Fate: unchanged, Err: mark{sentinel}}
}

func conflictBoard(slug Slug, what string) error {
	return &problem.Error{Kind: problem.Conflict, Thing: "board " + string(slug), What: what, Fate: unchanged, Err: mark{ErrConflict}}
}

func invalid(thing, what, remedy string) error { return invalidField("", thing, what, remedy) }

// invalidField is invalid with the name of the input, so that a form can point at it.
func invalidField(field, thing, what, remedy string) error {
	return &problem.Error{Kind: problem.Invalid, Thing: thing, What: what, Fate: unchanged, Remedy: remedy, Field: field}
}

func staleRun(id string, run RunID, t Task) error {
	what := fmt.Sprintf("is no longer run %d's: it is %s", run, t.Status)
	if t.CurrentRunID != 0 {
		what = fmt.Sprintf("is no longer run %d's: run %d has it", run, t.CurrentRunID)
	}
	return &problem.Error{
		Kind: problem.Conflict, Thing: cardThing(id), What: what, Fate: unchanged,
		Remedy: "stop working on it; another attempt or a person has taken over", Err: mark{ErrStaleRun},
	}
}

// foreignRun is staleRun for a run whose number came back: the board's file was replaced by an older one, or somebody made an
// environment up.
func foreignRun(f Fence, what string) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: cardThing(f.Task), What: what, Fate: unchanged,
		Remedy: "stop working on it; this process is not the worker of the card's run", Err: mark{ErrStaleRun},
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
