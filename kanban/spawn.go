package kanban

import (
	"context"
	"errors"
	"time"

	"gatewayd/internal/sqlite"
)

// Every statement of a worker names the run, and hits only while that run is the card's open one.
const whereCurrent = ` WHERE id = ? AND status = 'running' AND current_run_id = ?`

const (
	spawnTask = `UPDATE tasks SET worker_pid = ?, worker_started_at = ?` + whereCurrent
	spawnRun  = `UPDATE task_runs SET worker_pid = ?, worker_started_at = ? WHERE id = ? AND ended_at IS NULL`
	keepRun   = `INSERT INTO gw_runs (run_id, task_id, keeper_id, pid, fingerprint, spawned_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id) DO UPDATE SET keeper_id = excluded.keeper_id, pid = excluded.pid, fingerprint = excluded.fingerprint,
    spawned_at = excluded.spawned_at, settled_at = NULL`
)

// Spawned records the worker of a run. ErrStaleRun says that the card has moved meanwhile: the child must be ended.
func (b *Board) Spawned(ctx context.Context, task string, run RunID, pid int, fingerprint, keeper string) error {
	return b.write(ctx, "record worker", func(t *txn) error {
		if err := t.fenced(task, run, spawnTask, pid, opt(fingerprint), task, int64(run)); err != nil {
			return err
		}
		if err := t.must("record worker", spawnRun, pid, opt(fingerprint), int64(run)); err != nil {
			return err
		}
		if keeper != "" {
			if err := t.must("record keeper", keepRun, int64(run), task, keeper, pid, opt(fingerprint), t.now); err != nil {
				return err
			}
		}
		p := payload{{"pid", pid}}
		if fingerprint != "" {
			p = append(p, field{"started_at", fingerprint})
		}
		return t.event(task, run, "spawned", p)
	})
}

// fenced runs an update of the card that names its run, and explains when it hit nothing.
func (t *txn) fenced(task string, run RunID, sql string, args ...any) error {
	n, err := t.run("update card", sql, args...)
	if err != nil || n == 1 {
		return err
	}
	card, err := loadTask(t.Conn, task)
	if err != nil {
		return err
	}
	return staleRun(task, run, card)
}

const (
	beatTask = `UPDATE tasks SET last_heartbeat_at = ?, claim_expires = CASE WHEN ? > 0 THEN ? ELSE claim_expires END` + whereCurrent
	beatRun  = `UPDATE task_runs SET last_heartbeat_at = ?, claim_expires = CASE WHEN ? > 0 THEN ? ELSE claim_expires END
WHERE id = ? AND ended_at IS NULL`
)

// Heartbeat is a worker's sign of life; with a ttl it also extends the claim. Only one with a note becomes an event: the
// automatic ones would fill the table.
func (b *Board) Heartbeat(ctx context.Context, task string, run RunID, note string, ttl time.Duration) error {
	return b.write(ctx, "heartbeat", func(t *txn) error {
		secs := int64(ttl / time.Second)
		if err := t.fenced(task, run, beatTask, t.now, secs, t.now+secs, task, int64(run)); err != nil {
			return err
		}
		if _, err := t.run("heartbeat", beatRun, t.now, secs, t.now+secs, int64(run)); err != nil || note == "" {
			return err
		}
		return t.event(task, run, "heartbeat", payload{{"note", b.said(clean(note))}})
	})
}

// activeEvery is how often a worker's activity is written down: a claim lasts many times as long, and a worker that calls
// tools all the time must not keep the file busy.
const activeEvery = time.Minute

// activePatience is short, because nobody waits for a stamp: the next call makes it.
const activePatience = 500 * time.Millisecond

const (
	activeTask = `UPDATE tasks SET claim_expires = ?, last_heartbeat_at = CASE WHEN last_heartbeat_at IS NULL THEN NULL ELSE ? END` + whereCurrent
	activeRun  = `UPDATE task_runs SET claim_expires = ?, last_heartbeat_at = CASE WHEN last_heartbeat_at IS NULL THEN NULL ELSE ? END
WHERE id = ? AND ended_at IS NULL`
)

// Active says that a run's worker did something, which extends its claim to a ttl from now: at most once a minute, and
// without an event. It is no heartbeat, since a worker is held to the heartbeats that it began: one that has sent none, and
// then works for hours with tools of its own, is not taken for stuck. run is as the board gave it. Only ErrStaleRun is an error.
func (b *Board) Active(ctx context.Context, run Run, ttl time.Duration) error {
	if ttl < activeEvery || time.Until(time.Unix(run.ClaimExpires, 0)) > ttl-activeEvery {
		return nil
	}
	quick := *b
	quick.patience = activePatience
	err := quick.write(ctx, "note activity", func(t *txn) error {
		expires := t.now + int64(ttl/time.Second)
		if err := t.fenced(run.TaskID, run.ID, activeTask, expires, t.now, run.TaskID, int64(run.ID)); err != nil {
			return err
		}
		_, err := t.run("note activity", activeRun, expires, t.now, int64(run.ID))
		return err
	})
	if errors.Is(err, ErrStaleRun) {
		return err
	}
	return nil
}

const (
	extendTask = `UPDATE tasks SET claim_expires = ? WHERE id = ? AND status = 'running' AND claim_lock = ? AND claim_expires IS ?`
	extendRun  = `UPDATE task_runs SET claim_expires = ? WHERE id = ? AND ended_at IS NULL`
)

// Extend gives the claim of a worker that is alive another ttl from now, if lock and expiry are still the ones that were
// looked at. more goes into the event beside what is known here; "reason" is pid_alive unless it says otherwise.
func (b *Board) Extend(ctx context.Context, task, lock string, oldExpiry int64, ttl time.Duration, more map[string]any) (bool, error) {
	done := false
	err := b.write(ctx, "extend claim", func(t *txn) error {
		done = false
		expires := t.now + int64(ttl/time.Second)
		n, err := t.run("extend claim", extendTask, expires, task, lock, opt(oldExpiry))
		if err != nil || n == 0 {
			return err
		}
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		if _, err := t.run("extend claim", extendRun, expires, int64(card.CurrentRunID)); err != nil {
			return err
		}
		done = true
		return t.event(task, card.CurrentRunID, "claim_extended", payload{
			{"reason", "pid_alive"},
			{"worker_pid", opt(int64(card.WorkerPID))},
			{"claim_lock", lock},
			{"claim_expires_was", opt(oldExpiry)},
			{"claim_expires_now", expires},
			{"last_heartbeat_at", opt(card.LastHeartbeatAt)},
		}.with(more))
	})
	return done && (err == nil || Committed(err)), err
}

const deferTask = `UPDATE tasks SET claim_expires = ?` + whereCurrent

// Defer keeps a claim whose worker could not be ended: releasing it would start a second one. The claim now expires at
// until, and the event says why.
func (b *Board) Defer(ctx context.Context, task string, run RunID, until time.Time, reason string, more map[string]any) error {
	return b.write(ctx, "defer reclaim", func(t *txn) error {
		if err := t.fenced(task, run, deferTask, until.Unix(), task, int64(run)); err != nil {
			return err
		}
		if _, err := t.run("defer reclaim", extendRun, until.Unix(), int64(run)); err != nil {
			return err
		}
		return t.event(task, run, "reclaim_deferred", payload{{"reason", reason}, {"claim_expires", until.Unix()}}.with(more))
	})
}

// with sets keys of a payload, in order of name where they are new.
func (p payload) with(more map[string]any) payload {
	for _, f := range sortedPayload(more) {
		at := p.find(f.key)
		if at < 0 {
			p = append(p, f)
		} else {
			p[at] = f
		}
	}
	return p
}

func (p payload) find(key string) int {
	for i, f := range p {
		if f.key == key {
			return i
		}
	}
	return -1
}

// Keeper is a process that holds, or held, a run of this board.
type Keeper struct {
	Run         RunID
	Task        string
	ID          string // the keeper's id
	PID         int    // the worker
	Fingerprint string
	SpawnedAt   int64
	Current     bool   // the run is still the card's open one
	Lock        string // whose claim the run was
}

const (
	isCurrent     = `EXISTS (SELECT 1 FROM tasks t WHERE t.id = g.task_id AND t.status = 'running' AND t.current_run_id = g.run_id)`
	selectKeepers = `SELECT g.run_id, g.task_id, g.keeper_id, g.pid, g.fingerprint, g.spawned_at, ` + isCurrent + `, r.claim_lock
FROM gw_runs g LEFT JOIN task_runs r ON r.id = g.run_id WHERE g.settled_at IS NULL`
	selectLeaving = selectKeepers + ` AND NOT ` + isCurrent + ` ORDER BY g.run_id`
	settleRun     = `UPDATE gw_runs SET settled_at = ? WHERE run_id = ? AND settled_at IS NULL`
)

// Keepers lists the runs whose end has not been accounted for, whether they are current or a verdict has closed them.
func (b *Board) Keepers(ctx context.Context) ([]Keeper, error) {
	var list []Keeper
	err := b.peek(ctx, func(c *sqlite.Conn) (err error) {
		list, err = collect(c, scanKeeper, selectKeepers+` ORDER BY g.run_id`)
		return err
	})
	return list, err
}

func scanKeeper(row *sqlite.Row) Keeper {
	c := &cursor{row: row}
	return Keeper{
		Run: RunID(c.num()), Task: c.text(), ID: c.text(), PID: int(c.num()), Fingerprint: c.text(), SpawnedAt: c.num(), Current: c.flag(), Lock: c.text(),
	}
}

// Settle notes that a run's keeper is gone and its record was taken account of. EndRun does it for the run it ends.
func (b *Board) Settle(ctx context.Context, run RunID) error {
	return b.Stopped(ctx, run, nil)
}

// Stopped is Settle for a worker that outlived its run and was ended: where that was asked for, the card's history says
// so, with how it ended.
func (b *Board) Stopped(ctx context.Context, run RunID, how map[string]any) error {
	return b.write(ctx, "settle run", func(t *txn) error {
		if _, err := t.run("settle run", settleRun, t.now, int64(run)); err != nil {
			return err
		}
		stop, wanted, err := t.stopOf(run)
		if err != nil || !wanted {
			return err
		}
		return t.stopped(stop, how)
	})
}

func (t *txn) stopped(stop Stop, how map[string]any) error {
	card, err := loadTask(t.Conn, stop.Task)
	if err == nil && card.CurrentRunID == stop.Run {
		return nil // the card is still the run's: EndRun closes both
	}
	if err := t.withdrawStop(stop.Run); err != nil {
		return err
	}
	if err != nil {
		return ignoreMissing(err)
	}
	kind := "terminal_worker_reaped"
	if card.Status == StatusArchived {
		kind = "archive_worker_termination"
	}
	p := payload{{"pid", opt(int64(stop.Worker))}}.say("reason", stop.Reason).say("actor", stop.Actor)
	return t.event(stop.Task, stop.Run, kind, p.with(how))
}
