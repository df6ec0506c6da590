package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/problem"
)

// settleFate answers a batch whose COMMIT failed in a way that does not say whether the rows are in. Each
// operation is asked by its own uid on a fresh read; without a way to ask, the answer says so.
func (w *writer) settleFate(batch []*request, cause error) {
	w.f.noteDamage(cause)
	for _, r := range batch {
		r.answer <- w.fateOf(r, cause)
	}
}

func (w *writer) fateOf(r *request, cause error) error {
	if r.err != nil {
		return w.f.explain(r.err, fateNone)
	}
	if certainlyNotStored(cause) {
		return w.f.explain(cause, fateNone)
	}
	if r.op.Done == nil {
		return w.unknownFate(r, cause)
	}
	var in bool
	err := w.ready()
	if err == nil {
		err = guard(func() error {
			return w.conn.inRead(context.Background(), func(c *Conn) (err error) {
				in, err = r.op.Done(c)
				return err
			})
		})
		w.afterFault(err)
	}
	switch {
	case err != nil:
		return w.unknownFate(r, errors.Join(cause, fmt.Errorf("ask whether it is stored: %w", err)))
	case in:
		w.f.log.Warn("commit failed but the operation is stored", "path", w.f.path, "op", r.op.Label, "error", cause)
		return nil
	}
	return w.f.explain(cause, fateNone)
}

// certainlyNotStored: the frame or page that would have made the commit valid could not be written. A failed sync
// proves nothing, and neither does a fault.
func certainlyNotStored(cause error) bool {
	return !isFault(cause) && (errors.Is(cause, sqlite3.IOERR_WRITE) || errors.Is(cause, sqlite3.FULL))
}

func (w *writer) unknownFate(r *request, cause error) error {
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
