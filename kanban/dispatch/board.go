package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// board is what the dispatcher keeps of one board. Its handle is held for the daemon's life: a connection that
// comes and goes would let other programs checkpoint and delete the -wal under the writers.
type board struct {
	slug    kanban.Slug
	path    string
	workdir string // default_workdir
	log     *slog.Logger

	handle   *kanban.Board
	release  func()
	lock     *kanban.FileLock
	before   string // the lock string of the dispatcher that was last here before us
	bad      *quarantine
	trouble  *trouble
	stamp    sqlite.Stamp
	stamped  bool
	due      time.Time
	lastTick time.Time
	sweeper  sweeper
	trees    sync.Mutex // one at a time makes, takes or removes a worktree
	recalled bool       // what its lanes went through before this process began is known

	unread  map[string]unreadable // workers whose record cannot be read, by keeper id
	wrote   bool                  // this tick has changed the board since its survey
	ready   []Candidate
	holds   map[string]Hold  // ready card → its first hold
	past    map[string]Hold  // the same of the tick before
	others  map[string]other // running cards that have no worker of ours
	seen    map[kanban.RunID]*leaver
	leaving map[kanban.RunID]*leaver // workers whose run is over and who are not
	endings map[kanban.RunID]*ending // of workers of running cards that no keeper of ours holds
	wanted  map[kanban.RunID]bool    // runs that are over and whose workers somebody wants gone
	pause   *kanban.Pause
	most    int // workers at the same time; 0 = no limit
	running int
	outside *Hold // what holds the board as a whole
}

// other is a running card's worker that we did not start.
type other struct {
	lane   string
	review bool
}

// trouble is an error that repeats: it is said when it starts, when it changes and when it ends.
type trouble struct {
	text  string
	since time.Time
	wait  time.Duration
}

// unreadable is what is known of such a worker.
type unreadable struct {
	text  string // why its record cannot be read
	lives bool   // a process of it was seen
}

const (
	troubleFirst   = time.Second
	troubleLongest = time.Minute
)

// visit is one board's part of a tick. Its errors are its own.
func (d *Dispatcher) visit(ctx context.Context, b *board, p *pass) {
	p.Boards++
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.o.BoardPatience)
	defer cancel()
	if !d.enter(ctx, b, p) {
		return
	}
	if err := d.upkeep(ctx, b, p); err != nil {
		d.failed(b, p, err)
		return
	}
	d.recovered(b)
	b.lastTick = p.now
}

// enter decides whether the board needs a look, and opens and locks it.
func (d *Dispatcher) enter(ctx context.Context, b *board, p *pass) bool {
	if b.trouble != nil && p.now.Before(b.due) {
		return false
	}
	if _, going := d.going.Load(b.slug); going {
		return false
	}
	if b.bad != nil || b.handle == nil {
		if !d.admit(ctx, b, p) {
			return false
		}
	}
	if b.handle.Replaced() || b.handle.Lost() {
		b.log.Info("board file was replaced; opening the new one", "path", b.path)
		b.close()
		if !d.admit(ctx, b, p) {
			return false
		}
	}
	stamp, err := b.handle.File().Stamp()
	if err != nil {
		d.failed(b, p, err)
		return false
	}
	quiet := b.stamped && stamp == b.stamp && (b.due.IsZero() || p.now.Before(b.due))
	if quiet && !p.full && !p.woken[b.slug] {
		p.Unchanged++
		return false
	}
	if !d.take(b, p) {
		return false
	}
	b.stamp, b.stamped, b.due = stamp, true, time.Time{}
	return true
}

// admit is the fingerprint gate and the open. While a damaged file is unchanged, nothing opens it.
func (d *Dispatcher) admit(ctx context.Context, b *board, p *pass) bool {
	if _, err := os.Stat(b.path); errors.Is(err, os.ErrNotExist) && b.bad == nil {
		return false // a board that has no file yet has no cards
	}
	if b.bad == nil && kanban.BeingMade(b.path) {
		return false
	}
	print := sqlite.TakeFingerprint(b.path)
	switch b.bad.gate(print, p.now) {
	case gateShut:
		p.Disabled = append(p.Disabled, b.slug)
		b.due = b.bad.retryAt
		return false
	case gateChanged:
		b.log.Info("database changed; retrying dispatch", "path", b.path)
	case gateRetry:
		b.log.Info("fingerprint unchanged; retrying after quarantine", "path", b.path, "after", b.bad.wait.String())
	}
	handle, release, err := d.o.Acquire(ctx, b.path)
	if err != nil {
		d.failed(b, p, err)
		return false
	}
	b.handle, b.release, b.stamped = handle, release, false
	if holder, ok := kanban.LockHolder(kanban.DispatchLockPath(b.path)); ok {
		b.before = holder.Host + ":" + strconv.Itoa(holder.PID)
	}
	d.recall(ctx, b)
	d.recallLanes(ctx, b, p.now)
	return true
}

// take locks the board for this tick against every other dispatcher, Python's too.
func (d *Dispatcher) take(b *board, p *pass) bool {
	var err error
	if b.lock == nil {
		if b.lock, err = kanban.OpenLock(kanban.DispatchLockPath(b.path)); err != nil {
			b.lock = nil
			d.failed(b, p, err)
			return false
		}
	}
	switch err = b.lock.TryLock(); {
	case errors.Is(err, kanban.ErrHeld):
		p.Locked = append(p.Locked, b.slug)
		b.outside = &Hold{Reason: BoardLocked, Detail: "another process is in its tick on this board", Since: when(p.now), Remedy: "nothing: it will start the card, or let go"}
		b.due = p.now.Add(troubleFirst)
		return false
	case err != nil:
		d.failed(b, p, err)
		return false
	}
	p.locked = append(p.locked, b)
	return true
}

func (b *board) unlock() {
	if b.lock != nil {
		_ = b.lock.Unlock()
	}
}

// close gives the handle back; no checkpoint is made.
func (b *board) close() {
	if b.lock != nil {
		_ = b.lock.Close()
		b.lock = nil
	}
	if b.release != nil {
		b.release()
	}
	b.handle, b.release, b.stamped = nil, nil, false
}

// failed takes a board's error. Damage disables the board until its file changes; anything else is tried again.
func (d *Dispatcher) failed(b *board, p *pass, err error) {
	if errors.Is(err, context.Canceled) {
		return // we are ending; the board is as it was
	}
	p.fail(b.slug, err)
	if damaged(err) {
		d.disable(b, p, err)
		return
	}
	text := err.Error()
	if b.trouble == nil || b.trouble.text != text {
		since := p.now
		if b.trouble != nil {
			since = b.trouble.since
		}
		b.trouble = &trouble{text: text, since: since, wait: troubleFirst}
		b.log.Warn("board cannot be served just now", "path", b.path, "error", text)
	} else {
		b.trouble.wait = min(2*b.trouble.wait, troubleLongest)
	}
	b.due = p.now.Add(b.trouble.wait)
	b.outside = &Hold{Reason: BoardUnavailable, Detail: text, Since: when(b.trouble.since), Until: when(b.due), Remedy: "it is tried again by itself"}
	if sqlite.ClassOf(err) != sqlite.Busy {
		b.close()
	}
}

// disable closes a damaged board first and takes the fingerprint then, because our own handle may have touched
// the -wal. There is one ERROR for each state of the file, however often it is looked at.
func (d *Dispatcher) disable(b *board, p *pass, err error) {
	b.close()
	reason, remedy := damageOf(err)
	next, first := b.bad.failed(sqlite.TakeFingerprint(b.path), reason, p.now)
	if first {
		if copied, err := kanban.BackupCorrupt(b.path); err == nil {
			b.log.Info("a copy of the damaged file is kept", "path", copied)
		} else {
			b.log.Warn("no copy of the damaged file could be kept", "path", b.path, "error", err)
		}
		b.log.Error("board is disabled and its file was left as it is; other boards go on", "path", b.path, "error", reason, "remedy", remedy)
	}
	b.bad, b.trouble, b.due = next, nil, next.retryAt
	d.shut.Store(b.slug, &shut{*next, b.path, remedy})
	p.Disabled = append(p.Disabled, b.slug)
	b.outside = &Hold{
		Reason: BoardDisabled, Detail: "its file " + next.reason, Since: when(next.since), Until: when(next.retryAt), Remedy: remedy,
	}
	b.ready, b.holds, b.others, b.running, b.pause = nil, nil, nil, 0, nil
}

// damageOf takes the words for a damaged file from whoever looked at it: what is wrong, and what to do.
func damageOf(err error) (reason, remedy string) {
	reason, remedy = "is damaged: "+err.Error(), sqlite.RepairRemedy("board")
	if c, ok := errors.AsType[*kanban.CorruptError](err); ok {
		reason = c.Reason
	}
	p, ok := errors.AsType[*problem.Error](err)
	if ok && p.Remedy != "" {
		remedy = p.Remedy
	}
	if ok && errors.Is(err, kanban.ErrForeign) {
		reason = p.What
	}
	return reason, remedy
}

// damaged: by result code only; a message may quote anything.
func damaged(err error) bool {
	if errors.Is(err, kanban.ErrCorruptBoard) || errors.Is(err, kanban.ErrForeign) {
		return true
	}
	class := sqlite.ClassOf(err)
	return class == sqlite.Corrupt || class == sqlite.NotADatabase
}

// recovered says once that a board is well again.
func (d *Dispatcher) recovered(b *board) {
	if b.bad != nil {
		b.log.Info("board is served again", "path", b.path)
	} else if b.trouble != nil {
		b.log.Info("board is served again", "path", b.path, "was", b.trouble.text)
	}
	if b.bad != nil {
		d.shut.Delete(b.slug)
	}
	b.bad, b.trouble, b.outside = nil, nil, nil
}

// look asks for another look at the board at t, if nothing happens before.
func (b *board) look(t time.Time) { b.due = earliest(b.due, t) }
