package kanban

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// DefaultClaimTTL is how long a claim lasts without a sign of life.
const DefaultClaimTTL = 900 * time.Second

// Claimer says who claims and for how long.
type Claimer struct {
	Lock   string        // "<hostname>:<pid>"; "" = ClaimLock()
	TTL    time.Duration // 0 = DefaultClaimTTL
	Review bool          // claim from review instead of ready

	Dispatcher bool // the claimer starts a worker at once: where there is none when it has died, the claim is void
}

// Claim is a card that is now the claimer's, and the run that fences it.
type Claim struct {
	Task Task
	Run  Run
}

func (c Claimer) from() Status {
	if c.Review {
		return StatusReview
	}
	return StatusReady
}

// The claim in three statements: the run is inserted only if the card may be claimed, then the card follows it. What the
// last attempt left (heartbeat, pid) is cleared, or it would make the new one look stale.
const (
	insertClaimedRun = `INSERT INTO task_runs (task_id, profile, step_key, status, claim_lock, claim_expires, max_runtime_seconds, started_at)
SELECT t.id, t.assignee, t.current_step_key, 'running', ?, ?, t.max_runtime_seconds, ? FROM tasks t
WHERE t.id = ? AND t.status = ? AND t.claim_lock IS NULL AND t.current_run_id IS NULL AND NOT EXISTS (
    SELECT 1 FROM task_links l JOIN tasks p ON p.id = l.parent_id WHERE l.child_id = t.id AND p.status NOT IN ('done', 'archived'))`
	claimTask = `UPDATE tasks SET status = 'running', claim_lock = ?, claim_expires = ?, started_at = COALESCE(started_at, ?),
    current_run_id = ?, last_heartbeat_at = NULL, worker_pid = NULL, worker_started_at = NULL WHERE id = ? RETURNING `
)

// updateClaimedTask answers the whole card. Columns after RETURNING cannot carry a table's alias.
var updateClaimedTask = claimTask + strings.ReplaceAll(taskColumns, "t.", "")

// Claim takes a card: compare and swap, run and event in one transaction. Of any number of claimers one wins. The others get
// a Conflict problem around ErrTaken, ErrNotReady or ErrParentsOpen; the last one puts the card back to todo. A card whose
// last worker still lives on this machine counts as taken.
func (b *Board) Claim(ctx context.Context, task string, by Claimer) (Claim, error) {
	if by.Lock == "" {
		by.Lock = ClaimLock()
	}
	if by.TTL <= 0 {
		by.TTL = DefaultClaimTTL
	}
	var claim Claim
	var refused error
	err := b.write(ctx, "claim card", func(t *txn) (err error) {
		claim, refused = Claim{}, nil
		if claim, err = t.claim(task, by); err != nil || claim.Run.ID != 0 {
			return err
		}
		if refused, err = t.unclaimable(task, by.from()); err != nil || refused != nil {
			return err
		}
		claim, err = t.claim(task, by) // a leaked run was closed
		return err
	})
	if err != nil && !Committed(err) {
		return Claim{}, err
	}
	if refused != nil {
		return Claim{}, refused
	}
	return claim, err
}

func (t *txn) claim(task string, by Claimer) (Claim, error) {
	expires := t.now + int64(by.TTL/time.Second)
	res, err := t.Exec(insertClaimedRun, by.Lock, expires, t.now, task, string(by.from()))
	if err != nil || res.Changes == 0 {
		return Claim{}, err
	}
	run := RunID(res.LastID)
	if err := t.alone(task); err != nil {
		return Claim{}, err
	}
	tasks, err := collect(t.Conn, scanTask, updateClaimedTask, by.Lock, expires, t.now, res.LastID, task)
	if err != nil {
		return Claim{}, err
	}
	if len(tasks) != 1 {
		return Claim{}, fmt.Errorf("claim card: changed %d rows instead of one", len(tasks))
	}
	p := payload{{"lock", by.Lock}, {"expires", expires}, {"run_id", run}}
	if by.Review {
		p = append(p, field{"source_status", StatusReview})
	}
	if by.Dispatcher {
		p = append(p, field{"dispatcher", true})
	}
	card := tasks[0]
	return Claim{Task: card, Run: Run{
		ID: run, TaskID: task, Profile: card.Assignee, StepKey: card.CurrentStepKey, Status: string(StatusRunning), ClaimLock: by.Lock,
		ClaimExpires: expires, MaxRuntimeSeconds: card.MaxRuntimeSeconds, StartedAt: t.now,
	}}, t.event(task, run, EventClaimed, p)
}

const selectEarlierWorkers = `SELECT g.pid, g.fingerprint FROM gw_runs g WHERE g.task_id = ? AND g.settled_at IS NULL AND g.pid > 0`

// alone refuses a card whose last worker has not ended yet, whatever became of its run: two would work in one place.
func (t *txn) alone(task string) error {
	for row, err := range t.Query(selectEarlierWorkers, task) {
		if err != nil {
			return err
		}
		if pid := int(row.Int(0)); processLives(pid, row.Text(1)) && !mutation.On("claim-beside-a-living-worker") {
			return conflict(task, ErrTaken, "has a worker of an earlier run that has not ended yet (pid %d)", pid)
		}
	}
	return nil
}

// unclaimable finds out why a claim did not take. It repairs the one cause that is damage (a closed claim whose run was
// left open) and then returns nil, so that the claim is tried once more.
func (t *txn) unclaimable(id string, want Status) (refused, err error) {
	card, err := loadTask(t.Conn, id)
	if err != nil {
		return nil, err
	}
	open, err := openParents(t.Conn, id)
	switch {
	case err != nil:
		return nil, err
	case card.ClaimLock != "":
		return conflict(id, ErrTaken, "is claimed by %s (run %d)", card.ClaimLock, card.CurrentRunID), nil
	case card.Status != want:
		return conflict(id, ErrNotReady, "is %s, not %s", card.Status, want), nil
	case len(open) > 0:
		return t.rejectClaim(card, open)
	case card.CurrentRunID != 0:
		return nil, t.closeLeaked(card)
	}
	return nil, fmt.Errorf("claim card %s: nothing speaks against it, but it did not take", id)
}

const demoteTask = `UPDATE tasks SET status = 'todo' WHERE id = ? AND status IN ('ready', 'review') AND claim_lock IS NULL`

func (t *txn) rejectClaim(card Task, open []string) (refused, err error) {
	if err := t.must("put card back", demoteTask, card.ID); err != nil {
		return nil, err
	}
	p := payload{{"reason", "parents_not_done"}, {"parents", open}}
	if card.Status == StatusReview {
		p = append(p, field{"resume_status", StatusReview})
	}
	err = t.event(card.ID, 0, "claim_rejected", p)
	return &problem.Error{
		Kind: problem.Conflict, Thing: cardThing(card.ID), What: "waits for " + joinSome(open, 5), Fate: "it was put back to todo",
		Err: mark{ErrParentsOpen},
	}, err
}

const (
	closeLeakedRun = `UPDATE task_runs SET status = 'reclaimed', outcome = 'reclaimed', ended_at = ?, error = 'invariant recovery: the card was not running'
WHERE task_id = ? AND ended_at IS NULL`
	clearRun = `UPDATE tasks SET current_run_id = NULL WHERE id = ?`
)

func (t *txn) closeLeaked(card Task) error {
	if _, err := t.run("close leaked run", closeLeakedRun, t.now, card.ID); err != nil {
		return err
	}
	return t.must("close leaked run", clearRun, card.ID)
}
