package sqlite

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// A COMMIT that failed does not say whether its rows are in, and even where they cannot be read, they may come back: a
// frame of the -wal that was written and not synced is taken for good by whoever opens the file after a crash, and a
// journal whose deletion was not synced undoes its commit after a power cut. Only another COMMIT that succeeds ends
// the doubt. So the operations go into one more transaction, where each is first asked for by its uid and run only
// if it is not there; the transaction writes even if all are. When that fails too, the answer is that nobody knows.

// inDoubt answers those of a failed COMMIT whose fate is certain, and those who cannot be asked for or were given their
// second chance; the others it gives back for the next transaction.
func (w *writer) inDoubt(batch []*request, cause error) []*request {
	w.f.noteDamage(cause)
	again := batch[:0]
	for _, r := range batch {
		switch {
		case r.err != nil:
			w.answer(r, r.err)
		case certainlyNotStored(cause):
			w.answer(r, cause)
		case r.doubt || r.op.Done == nil:
			r.doubt = true
			w.answer(r, cause)
		default:
			r.doubt = true
			again = append(again, r)
		}
	}
	if len(again) > 0 {
		w.f.log.Warn("commit failed, its operations are asked for and tried once more", "path", w.f.path, "error", cause)
	}
	return again
}

// certainlyNotStored: the frame or page that would have made the commit valid could not be written. A failed sync
// proves nothing, and neither does a fault.
func certainlyNotStored(cause error) bool {
	if mutation.On("failed-sync-is-not-stored") {
		return true
	}
	return !isFault(cause) && (errors.Is(cause, sqlite3.IOERR_WRITE) || errors.Is(cause, sqlite3.FULL))
}

func anyInDoubt(batch []*request) bool {
	for _, r := range batch {
		if r.doubt {
			return true
		}
	}
	return false
}

// isIn asks an operation in doubt whether its row is there.
func (w *writer) isIn(r *request) (bool, error) {
	if !r.doubt || mutation.On("fate-not-asked") {
		return false, nil
	}
	in, err := r.op.Done(w.conn)
	if err != nil {
		return false, fmt.Errorf("ask whether it is stored: %w", err)
	}
	return in, nil
}

// touch writes a page without changing anything, so that the transaction has something to make durable.
func (c *Conn) touch() error {
	text, err := c.pragma("user_version")
	if err != nil {
		return fmt.Errorf("read user version: %w", err)
	}
	if _, err := strconv.Atoi(text); err != nil {
		return fmt.Errorf("read user version: %w", err)
	}
	if _, err := c.pragma("user_version=" + text); err != nil {
		return fmt.Errorf("write user version: %w", err)
	}
	return nil
}

// told is the answer to an operation that was not stored, or of which that cannot be said.
func (w *writer) told(r *request, cause error) error {
	if !r.doubt {
		return w.f.explain(cause, fateNone)
	}
	cause = w.f.spaceDecides(cause)
	kind := problem.Unavailable
	if ClassOf(cause) == NoSpace {
		kind = problem.Full
	}
	return &problem.Error{
		Kind: kind, Thing: w.f.thing(), What: "could not confirm " + r.op.Label,
		Fate: "whether it is stored is unknown", Remedy: "look before writing it again", Err: cause,
	}
}
