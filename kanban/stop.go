package kanban

import (
	"context"
	"fmt"
	"strings"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Stop is a request to end the worker of a run. The dispatcher fulfils it. While the run is the card's open one the card
// goes only when the worker has, by EndRun: it never becomes dispatchable beside a living worker. A run that is over
// already (the card was blocked, archived, completed by a person) keeps its request until its worker is gone, see Stopped.
type Stop struct {
	Run      RunID  `json:"run_id"`
	Task     string `json:"task_id"`
	Reason   string `json:"reason"`
	Actor    string `json:"actor"`
	To       Status `json:"to_status"` // "" = where the card was claimed from
	Assignee string `json:"assignee"`  // "" = as it is, "-" = nobody
	At       int64  `json:"at"`

	Worker        int    `json:"worker_pid"`        // as the run has it; 0 = none was recorded
	WorkerStarted string `json:"worker_started_at"` // its fingerprint
}

// Released says what became of a card that was taken from its run, or moved.
type Released struct {
	Status      Status   `json:"status"`
	Now         bool     `json:"now"`         // false = the worker lives on this host: only a stop request was written
	Worker      int      `json:"worker_pid"`  // the pid of the worker that has to end, 0 = none
	Descendants []string `json:"descendants"` // cards that were put back because this one was reopened
}

const nobody = "-"

// Reclaim takes a running card from its worker. Where the worker lives on this machine it is asked to end first and the
// card goes afterwards. It is a fresh start for the breaker.
func (b *Board) Reclaim(ctx context.Context, task, reason, actor string) (Released, error) {
	return b.release(ctx, "reclaim card", func(t *txn) (Released, error) {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return Released{}, err
		}
		return t.take(card, Stop{Reason: reason, Actor: actor})
	})
}

// Reassign gives a card to another lane or person; "", "none" and "-" take it from everybody. A running card is refused,
// or with reclaim taken from its worker first.
func (b *Board) Reassign(ctx context.Context, task, assignee, reason, actor string, reclaim bool) (Released, error) {
	name, err := parseHeir(assignee)
	if err != nil {
		return Released{}, err
	}
	return b.release(ctx, "reassign card", func(t *txn) (Released, error) {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return Released{}, err
		}
		if card.Status != StatusRunning || !reclaim {
			return Released{Status: card.Status, Now: true}, t.assign(card, name, "")
		}
		heir := name
		if heir == "" {
			heir = nobody
		}
		return t.take(card, Stop{Reason: reason, Actor: actor, Assignee: heir})
	})
}

const selectRunTask = `SELECT task_id FROM task_runs WHERE id = ?`

// Terminate is Reclaim by the run. A run that is over is a Conflict problem around ErrStaleRun.
func (b *Board) Terminate(ctx context.Context, run RunID, reason, actor string) (Released, error) {
	return b.release(ctx, "terminate run", func(t *txn) (Released, error) {
		var task string
		found, err := t.Row(selectRunTask, []any{int64(run)}, &task)
		if err != nil {
			return Released{}, err
		}
		if !found {
			return Released{}, missingRun(run)
		}
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return Released{}, err
		}
		if card.CurrentRunID != run {
			return Released{}, overRun(run, card)
		}
		return t.take(card, Stop{Reason: reason, Actor: actor})
	})
}

// overRun is staleRun for a person who would end a run.
func overRun(run RunID, card Task) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: runThing(run), What: fmt.Sprintf("of %s is over: the card is %s", cardThing(card.ID), card.Status), Fate: unchanged,
		Remedy: "list its runs with `gatewayd kanban runs " + card.ID + "`", Err: mark{ErrStaleRun},
	}
}

func missingRun(run RunID) error {
	return &problem.Error{
		Kind: problem.NotFound, Thing: runThing(run), What: "is not on this board", Fate: unchanged,
		Remedy: "list a card's runs with `gatewayd kanban runs ID`", Err: mark{ErrNotFound},
	}
}

// release runs a verb that answers what became of the card.
func (b *Board) release(ctx context.Context, label string, do func(*txn) (Released, error)) (Released, error) {
	var r Released
	err := b.write(ctx, label, func(t *txn) (err error) {
		r, err = do(t)
		return err
	})
	if err != nil && !Committed(err) {
		return Released{}, err
	}
	return r, err
}

// take is the one way in which a person gets a running card from its run: at once where no worker lives here, else by a
// request.
func (t *txn) take(card Task, s Stop) (Released, error) {
	s.Run, s.Task = card.CurrentRunID, card.ID
	s.Reason, s.Actor = clean(strings.TrimSpace(s.Reason)), clean(strings.TrimSpace(s.Actor))
	if card.Status != StatusRunning {
		return Released{}, conflict(card.ID, ErrConflict, "is %s, not running", card.Status)
	}
	if livesHere(card) && !mutation.On("stop-releases-beside-the-worker") {
		if s.Run == 0 {
			return Released{}, conflict(card.ID, ErrLiveClaim, "has a living worker (pid %d) and no run", card.WorkerPID)
		}
		return Released{Status: StatusRunning, Worker: card.WorkerPID}, t.requestStop(card, s)
	}
	to, err := t.fulfil(card, s, nil)
	return Released{Status: to, Now: true}, err
}

const (
	insertStop = `INSERT INTO gw_stops (run_id, task_id, reason, actor, to_status, assignee, at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id) DO UPDATE SET reason = excluded.reason, actor = excluded.actor, to_status = excluded.to_status, assignee = excluded.assignee,
    at = excluded.at`
	deleteStop  = `DELETE FROM gw_stops WHERE run_id = ?`
	stopColumns = `s.run_id, s.task_id, s.reason, s.actor, s.to_status, s.assignee, s.at,
    (SELECT w.worker_pid FROM task_runs w WHERE w.id = s.run_id), (SELECT w.worker_started_at FROM task_runs w WHERE w.id = s.run_id)`
	selectStop  = `SELECT ` + stopColumns + ` FROM gw_stops s WHERE s.run_id = ?`
	selectStops = `SELECT ` + stopColumns + ` FROM gw_stops s ORDER BY s.at, s.run_id`
)

// requestStop writes the request, or another in its place.
func (t *txn) requestStop(card Task, s Stop) error {
	if err := t.must("request stop", insertStop, int64(s.Run), s.Task, opt(s.Reason), opt(s.Actor), opt(string(s.To)), opt(s.Assignee), t.now); err != nil {
		return err
	}
	p := payload{{"pid", card.WorkerPID}}.say("reason", s.Reason).say("actor", s.Actor).say("status", string(s.To)).say("assignee", s.Assignee)
	return t.event(card.ID, s.Run, "stop_requested", p)
}

// endWorker has the worker of a run ended whose card has moved on at once.
func (t *txn) endWorker(card Task, s Stop) error {
	if card.CurrentRunID == 0 || !livesHere(card) {
		return nil
	}
	return t.must("request stop", insertStop, int64(card.CurrentRunID), card.ID, opt(s.Reason), opt(s.Actor), nil, nil, t.now)
}

func (t *txn) withdrawStop(run RunID) error {
	_, err := t.run("withdraw stop", deleteStop, int64(run))
	return err
}

func (t *txn) stopOf(run RunID) (Stop, bool, error) {
	list, err := collect(t.Conn, scanStopRow, selectStop, int64(run))
	return append(list, Stop{})[0], len(list) > 0, err
}

func scanStopRow(row *sqlite.Row) Stop { return scanStop(row, 0) }

func scanStop(row *sqlite.Row, from int) Stop {
	c := &cursor{row: row, i: from}
	return Stop{
		Run: RunID(c.num()), Task: c.text(), Reason: c.text(), Actor: c.text(), To: Status(c.text()), Assignee: c.text(), At: c.sec(),
		Worker: int(c.num()), WorkerStarted: c.text(),
	}
}

// Stops lists the requests, the oldest first: those of running cards and those of workers that outlived their run.
func (b *Board) Stops(ctx context.Context) ([]Stop, error) {
	var list []Stop
	err := b.peek(ctx, func(c *sqlite.Conn) (err error) {
		list, err = collect(c, scanStopRow, selectStops)
		return err
	})
	return list, err
}
