package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/mutation"
)

// The writer checkpoints after it has answered, never another connection: one that checkpoints beside the writer
// never catches up, and the -wal grew to tens of megabytes in a test of minutes.
const (
	checkpointPages = 1000
	pinnedBytes     = 16 << 20 // a reader that holds the -wal beyond this is waited for, briefly
	pinnedWait      = 250 * time.Millisecond
	pinnedEvery     = time.Minute
	idleCheck       = time.Second // after this long without work the rest is checkpointed
)

// CheckpointResult says what a checkpoint found: pages in the -wal and how many of them are in the database now.
type CheckpointResult struct{ Log, Done int }

// walState is what the writer knows about the -wal of a database without auto-checkpoint.
type walState struct {
	pages     int // in the -wal after the last commit
	done      int // of them checkpointed
	restarted time.Time
}

// walGrew is called by SQLite inside COMMIT; it only takes the number down.
func (w *writer) walGrew(_ *sqlite3.Conn, _ string, pages int) error {
	if pages < w.wal.done {
		w.wal.done = 0 // the -wal began anew
	}
	w.wal.pages = pages
	return nil
}

// afterBatch checkpoints when the -wal is long enough, after everybody was answered.
func (w *writer) afterBatch() {
	w.idle.Reset(idleCheck)
	w.f.rescueOnce(w.conn)
	if w.ownsCheckpoints() && w.wal.pages-w.wal.done >= checkpointPages {
		w.checkpoint(sqlite3.CHECKPOINT_PASSIVE)
		w.unpin()
	}
}

// atRest checkpoints what is left once nothing came for a while.
func (w *writer) atRest() {
	if w.ownsCheckpoints() && w.wal.pages > w.wal.done {
		w.checkpoint(sqlite3.CHECKPOINT_PASSIVE)
	}
}

// ownsCheckpoints: with SQLite's own checkpoint on there is nothing to do here, and never in quarantine.
func (w *writer) ownsCheckpoints() bool {
	return w.f.opts.AutoCheckpoint == 0 && w.mayCheckpoint()
}

func (w *writer) mayCheckpoint() bool {
	return w.conn != nil && w.f.journal.Mode == "wal" && !w.f.journal.assumed && (w.f.Reason() == Healthy || mutation.On("checkpoint-in-quarantine"))
}

// unpin waits a moment for readers when the -wal only grows because they hold it.
func (w *writer) unpin() {
	if int64(w.wal.pages)*w.f.page < pinnedBytes || time.Since(w.wal.restarted) < pinnedEvery || !w.mayCheckpoint() {
		return
	}
	w.wal.restarted = time.Now()
	w.f.log.Warn("write-ahead log is held by a long reader", "path", w.f.path, "pages", w.wal.pages)
	w.conn.db.BusyTimeout(pinnedWait)
	w.checkpoint(sqlite3.CHECKPOINT_RESTART)
	if w.conn != nil {
		w.conn.db.BusyTimeout(busyTimeout)
		w.shortBusy = false
	}
}

// checkpoint never fails a write: its trouble is logged and the next one tries again.
func (w *writer) checkpoint(mode sqlite3.CheckpointMode) CheckpointResult {
	var res CheckpointResult
	err := errors.Join(w.f.checkIdentity(), w.f.checkContent(w.conn))
	if err == nil || mutation.On("checkpoint-in-quarantine") {
		w.f.opts.seams.checkpoint(mode)
		err = guard(func() (err error) {
			res.Log, res.Done, err = w.conn.db.WALCheckpoint("main", mode)
			return err
		})
		w.afterFault(err)
	}
	if err != nil {
		if ClassOf(err) != Busy {
			w.f.noteDamage(err)
			w.f.log.Warn("checkpoint failed", "path", w.f.path, "error", err)
		}
		return res
	}
	w.wal.pages, w.wal.done = res.Log, res.Done
	w.wrote = w.wrote && res.Done < res.Log
	return res
}

// lastCheckpoint leaves a handle that only read as it is: after a reopen SQLite would copy the whole -wal again.
func (w *writer) lastCheckpoint() {
	if w.wrote && w.mayCheckpoint() {
		w.checkpoint(sqlite3.CHECKPOINT_PASSIVE)
	}
}

// Checkpoint moves what nobody is in the way of from the -wal into the database. It refuses in quarantine, and it
// does nothing to a database that is not in WAL.
func (f *File) Checkpoint(ctx context.Context) (CheckpointResult, error) {
	var res CheckpointResult
	err := f.maintain(ctx, OpCheckpoint, func(*Conn) error {
		if f.writer.mayCheckpoint() {
			res = f.writer.checkpoint(sqlite3.CHECKPOINT_PASSIVE)
		}
		return f.Quarantine()
	})
	return res, err
}
