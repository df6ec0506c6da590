package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// phase is how far a transaction came. It decides what an error means for the rows.
type phase int

const (
	phaseBegin  phase = iota // nothing was run
	phaseRun                 // operations ran, COMMIT was not asked for: nothing is stored
	phaseCommit              // COMMIT was asked for: an error other than BUSY leaves the fate unknown
)

// trial is one try to get a batch stored.
type trial struct {
	batch []*request
	phase phase
	alone bool // run one by one: a deferred constraint at COMMIT names nobody
}

// errLostTransaction: SQLite rolled the whole transaction back on its own, as it does for a full disk or an I/O
// error inside a statement. The operation that met it is answered, the others run again.
var errLostTransaction = errors.New("transaction was rolled back by SQLite")

// fateNone is what every write error says that is not of unknown fate.
const fateNone = "nothing of it was stored"

// commitBatch stores a batch: every request is answered when it returns.
func (w *writer) commitBatch(batch []*request) {
	wait := newBackoff()
	faults := 0
	for len(batch) > 0 {
		if err := w.mayWrite(); err != nil {
			w.answerAll(batch, err)
			return
		}
		t := &trial{batch: batch}
		err := guard(func() error { return w.try(t) })
		w.afterFault(err)
		batch = t.batch
		switch {
		case err == nil:
			w.answerStored(batch)
			return
		case errors.Is(err, errLostTransaction):
			// the culprit is out of the batch; the rest runs again
		case t.phase == phaseCommit:
			if batch = w.inDoubt(batch, err); len(batch) == 0 {
				return
			}
		case ClassOf(err) == Busy:
			if batch = w.waitForLock(wait, batch, err); len(batch) == 0 {
				return
			}
		case t.alone:
			w.commitOneByOne(batch)
			return
		case faults == 0 && (isFault(err) || t.phase == phaseBegin && ClassOf(err) == IO):
			faults++ // nothing was stored: once more, on a fresh connection if the old one is gone
		default:
			w.answerAll(batch, err)
			return
		}
	}
}

// mayWrite checks everything that forbids a transaction: quarantine, a lost connection, a replaced file.
func (w *writer) mayWrite() error {
	if err := w.f.Quarantine(); err != nil {
		return err
	}
	if err := w.ready(); err != nil || !w.f.opts.seams.guards() {
		return err
	}
	if err := w.f.checkIdentity(); err != nil {
		return err
	}
	return w.f.checkContent(w.conn)
}

// try runs the batch in one transaction. On return without error the batch holds what was committed.
func (w *writer) try(t *trial) error {
	t.phase = phaseBegin
	w.tries.Add(1)
	w.fitBusyTimeout(t.batch)
	if err := w.f.opts.seams.begin(func() error { return w.conn.control(sqlBegin) }); err != nil {
		return err
	}
	t.phase = phaseRun
	if err := w.runOps(t); err != nil {
		return errors.Join(err, w.conn.rollback())
	}
	doubt := anyInDoubt(t.batch)
	if !anySucceeded(t.batch) && !doubt {
		return w.conn.rollback()
	}
	if doubt {
		if err := w.conn.touch(); err != nil {
			return errors.Join(err, w.conn.rollback())
		}
	}
	t.phase = phaseCommit
	return w.commit(t)
}

// runOps runs each operation in its savepoint. Only an error that concerns all of them is returned.
func (w *writer) runOps(t *trial) error {
	tx := &Tx{w.conn}
	live := t.batch[:0]
	for _, r := range t.batch {
		if r.begin() {
			live = append(live, r)
		}
	}
	t.batch = live
	for i, r := range t.batch {
		r.err = w.runOp(tx, r)
		if w.conn.db.GetAutocommit() {
			t.batch = append(t.batch[:i], t.batch[i+1:]...)
			w.answer(r, r.err)
			return errLostTransaction
		}
		if isStillOpen(r.err) || (ClassOf(r.err) == Busy && hasCode(r.err)) {
			return r.err
		}
	}
	return nil
}

// runOp runs one operation. Its failure is undone and kept for its answer; the first error is never hidden by
// what the undoing says.
func (w *writer) runOp(tx *Tx, r *request) error {
	if err := w.conn.control(sqlSavepoint); err != nil {
		return err
	}
	err := w.do(tx, r)
	if w.conn.db.GetAutocommit() {
		if err == nil { // it looked away from the error that ended the transaction
			err = &classified{class: IO, err: errLostTransaction}
		}
		return err
	}
	if err != nil {
		if undo := w.conn.control(sqlUndo); undo != nil {
			w.f.log.Error("operation could not be undone by its savepoint", "path", w.f.path, "op", r.op.Label, "error", undo)
			return errors.Join(err, w.conn.rollback())
		}
	}
	if release := w.conn.control(sqlRelease); err == nil {
		err = release
	}
	return err
}

// do calls the caller's function. A panic in it is a bug of the caller's: it fails this operation, loudly, and
// nobody else's. A memory fault is not a bug and goes on to whoever gives up the connection.
func (w *writer) do(tx *Tx, r *request) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if asFault(p) != nil {
			panic(p)
		}
		w.f.log.Error("operation panicked", "path", w.f.path, "op", r.op.Label, "panic", p, "stack", string(debug.Stack()))
		err = &problem.Error{
			Kind: problem.Internal, Thing: w.f.thing(), What: fmt.Sprintf("%s has a bug: %v", r.op.Label, p),
			Fate: fateNone, Remedy: "report it with the log",
		}
	}()
	if in, err := w.isIn(r); in || err != nil {
		return err
	}
	return r.op.Do(tx)
}

func anySucceeded(batch []*request) bool {
	for _, r := range batch {
		if r.err == nil {
			return true
		}
	}
	return false
}

// commit asks for the COMMIT, again while a peer reads in the way. The transaction stays open meanwhile, so the
// operations are never run twice without a verified rollback between.
func (w *writer) commit(t *trial) error {
	wait := newBackoff()
	for {
		err := w.f.opts.seams.commit(w.conn.commit)
		if err == nil {
			w.wrote = true
			return nil
		}
		class := ClassOf(err)
		if class != Busy && class != Constraint {
			return errors.Join(err, w.conn.rollback())
		}
		if class == Busy && w.pause(wait, context.Background(), earliest(t.batch)) {
			if mutation.On("busy-commit-runs-again") {
				w.runOps(t)
			}
			continue
		}
		if undo := w.conn.rollback(); undo != nil {
			return errors.Join(err, undo)
		}
		t.phase = phaseRun // rolled back, verified: nothing is stored and the batch may run again
		t.alone = class == Constraint && len(t.batch) > 1
		return err
	}
}

// commitOneByOne finds the operation whose deferred constraint failed the COMMIT of all.
func (w *writer) commitOneByOne(batch []*request) {
	for _, r := range append([]*request(nil), batch...) {
		w.commitBatch([]*request{r})
	}
}

// waitForLock answers those whose patience is over and waits for the others' sake.
func (w *writer) waitForLock(wait *backoff, batch []*request, cause error) []*request {
	left := batch[:0]
	for _, r := range batch {
		switch {
		case r.ctx.Err() != nil:
			w.answer(r, classify(Interrupted, "%s: %w: %w", r.op.Label, context.Cause(r.ctx), cause))
		case !time.Now().Before(r.deadline) || w.isLeaving():
			w.answer(r, cause)
		default:
			left = append(left, r)
		}
	}
	if len(left) > 0 {
		w.pause(wait, left[0].ctx, earliest(left))
	}
	return left
}

func (w *writer) isLeaving() bool {
	select {
	case <-w.leaving:
		return true
	default:
		return false
	}
}

func earliest(batch []*request) time.Time {
	at := batch[0].deadline
	for _, r := range batch[1:] {
		if r.deadline.Before(at) {
			at = r.deadline
		}
	}
	return at
}

// fitBusyTimeout keeps SQLite's own wait from outlasting the most impatient of the batch.
func (w *writer) fitBusyTimeout(batch []*request) {
	want := min(busyTimeout, max(time.Until(earliest(batch)), 0))
	if want == busyTimeout && !w.shortBusy {
		return
	}
	w.conn.db.BusyTimeout(want)
	w.shortBusy = want != busyTimeout
}

// answer gives a request its error. A request whose caller left already is not claimed again.
func (w *writer) answer(r *request, err error) {
	if r.begin() {
		w.f.noteDamage(err)
		r.answer <- w.told(r, err)
	}
}

func (w *writer) answerAll(batch []*request, err error) {
	for _, r := range batch {
		w.answer(r, err)
	}
}

// answerStored answers after the COMMIT: nil, or the operation's own error, which was decided with the rows of
// its neighbours in view and therefore waits for them to be stored.
func (w *writer) answerStored(batch []*request) {
	var torn error
	if anySucceeded(batch) {
		torn = w.checkTorn()
	}
	for _, r := range batch {
		r.doubt = false
		if r.err != nil {
			w.answer(r, r.err)
		} else {
			r.answer <- torn
		}
	}
}
