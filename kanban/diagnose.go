package kanban

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gatewayd/internal/procfs"
	"gatewayd/internal/sqlite"
)

// Diagnose looks for what a person should know of a board: the worst first, then the oldest. It changes nothing, and needs
// no dispatcher: what it finds is in the rows, and in whether a worker's process lives. One snapshot, one reading of the clock.
func (b *Board) Diagnose(ctx context.Context, t Thresholds) ([]Diagnostic, error) {
	var list []Diagnostic
	err := b.read(ctx, func(c *sqlite.Conn) error {
		d := &diagnosis{Conn: c, Thresholds: t.withDefaults(), now: time.Now()}
		if err := d.run(); err != nil {
			return err
		}
		list = d.found
		return nil
	})
	if err != nil {
		return nil, err
	}
	SortDiagnostics(list)
	return append([]Diagnostic{}, list...), nil
}

// SortDiagnostics puts the worst first, and the oldest of those.
func SortDiagnostics(list []Diagnostic) {
	slices.SortStableFunc(list, func(a, b Diagnostic) int {
		return cmp.Or(b.Severity.rank()-a.Severity.rank(), cmp.Compare(a.First, b.First), strings.Compare(a.Task, b.Task))
	})
}

// diagnosis is one look at a board.
type diagnosis struct {
	*sqlite.Conn
	Thresholds
	now   time.Time
	found []Diagnostic
}

const selectOpenCards = `SELECT ` + taskColumns + ` FROM tasks t WHERE t.status NOT IN ('done', 'archived') ORDER BY t.id`

func (d *diagnosis) run() error {
	cards, err := collect(d.Conn, scanTask, selectOpenCards)
	if err != nil {
		return err
	}
	for _, card := range cards {
		for _, look := range []func(Task) error{d.failures, d.blocked, d.running} {
			if err := look(card); err != nil {
				return err
			}
		}
	}
	for _, look := range []func() error{d.cycling, d.stranded, d.doubts, d.unsettled, d.timers, d.stops, d.undelivered, d.paused} {
		if err := look(); err != nil {
			return err
		}
	}
	return nil
}

func (d *diagnosis) add(f Diagnostic) {
	f.Last, f.Count = cmp.Or(f.Last, d.now.Unix()), max(f.Count, 1)
	f.First = cmp.Or(f.First, f.Last)
	if f.Actions == nil {
		f.Actions = []Action{}
	}
	d.found = append(d.found, f)
}

// hint is a command to run.
func hint(label, command string, suggested bool) Action {
	return Action{Kind: ActionHint, Label: label, Payload: map[string]string{"command": command}, Suggested: suggested}
}

func act(kind, label, task string, suggested bool) Action {
	return Action{Kind: kind, Label: label, Payload: map[string]string{"task_id": task}, Suggested: suggested}
}

func lookAtLog(task string) Action {
	return hint("read what its workers said", "gatewayd kanban log "+task, false)
}

// scale is error from the threshold on and critical from twice as much.
func scale(n, threshold int) Severity {
	if n >= 2*threshold {
		return SeverityCritical
	}
	return SeverityError
}

// failures: a card that fails again and again, or whose workers crash again and again though the counter was set back.
func (d *diagnosis) failures(t Task) error {
	if t.StartedAt == 0 && t.ConsecutiveFailures == 0 {
		return nil
	}
	closed, err := collect(d.Conn, scanRunRow, selectClosed, t.ID, maxClosed)
	if err != nil {
		return err
	}
	actions := []Action{lookAtLog(t.ID), act(ActionReassign, "give it to another lane", t.ID, false)}
	if t.Status == StatusBlocked {
		actions = append(actions, act(ActionUnblock, "let it be tried again once the cause is gone", t.ID, true))
	}
	if n := int(t.ConsecutiveFailures); n >= d.Failures {
		f := Diagnostic{
			Kind: DiagnosticFailures, Severity: scale(n, d.Failures), Task: t.ID, Count: n, Actions: actions,
			Title: fmt.Sprintf("failed %d times in a row", n), Detail: cmp.Or(cut(t.LastFailureError, maxDetail), "no error was recorded"),
			Data: map[string]any{"consecutive_failures": n, "threshold": d.Failures},
		}
		span(&f, closed[:min(n, len(closed))])
		d.add(f)
		return nil
	}
	crashes := 0
	for crashes < len(closed) && closed[crashes].Outcome == OutcomeCrashed {
		crashes++
	}
	if crashes < d.Crashes {
		return nil
	}
	f := Diagnostic{
		Kind: DiagnosticCrashes, Severity: scale(crashes, d.Crashes), Task: t.ID, Count: crashes, Actions: actions,
		Title: fmt.Sprintf("its workers crashed %d times in a row", crashes), Detail: cmp.Or(cut(closed[0].Error, maxDetail), "no error was recorded"),
		Data: map[string]any{"crashes": crashes, "threshold": d.Crashes},
	}
	span(&f, closed[:crashes])
	d.add(f)
	return nil
}

const maxDetail = 500

// span takes first and last from runs, newest first.
func span(f *Diagnostic, runs []Run) {
	if len(runs) > 0 {
		f.Run, f.Last, f.First = runs[0].ID, runs[0].EndedAt, runs[len(runs)-1].EndedAt
	}
}

const (
	selectBlockedSince = `SELECT MAX(e.created_at) FROM task_events e WHERE e.task_id = ? AND e.kind IN ('blocked', 'gave_up', 'block_loop_detected')`
	selectLastComment  = `SELECT MAX(m.created_at) FROM task_comments m WHERE m.task_id = ?`
	// CROSS JOIN: from the few open cards to their events, never through all events of the board.
	selectCycles = `SELECT t.id, COUNT(*), MIN(e.created_at), MAX(e.created_at) FROM tasks t CROSS JOIN task_events e ON e.task_id = t.id
WHERE t.status NOT IN ('done', 'archived') AND e.kind = 'unblocked' AND e.created_at >= ?1
    AND EXISTS (SELECT 1 FROM task_events p WHERE p.task_id = t.id AND p.kind IN ('blocked', 'gave_up') AND p.id < e.id)
GROUP BY t.id HAVING COUNT(*) >= ?2 ORDER BY t.id`
)

// blocked: a card that waits for a person who has not noticed, or that was unblocked without a change.
func (d *diagnosis) blocked(t Task) error {
	if t.Status != StatusBlocked {
		return nil
	}
	var since, said int64
	if _, err := d.Row(selectBlockedSince, []any{t.ID}, &since); err != nil {
		return err
	}
	if _, err := d.Row(selectLastComment, []any{t.ID}, &said); err != nil {
		return err
	}
	since = cmp.Or(since, t.CreatedAt)
	unblock := act(ActionUnblock, "settle what it waits for and unblock it", t.ID, true)
	if quiet := d.now.Sub(time.Unix(max(since, said), 0)); quiet > d.Blocked {
		d.add(Diagnostic{
			Kind: DiagnosticStuckBlocked, Severity: SeverityWarning, Task: t.ID, First: since,
			Title: "blocked, and nobody has said a word for " + lasting(quiet), Detail: "it waits for a person" + kindWords(t),
			Actions: []Action{unblock, act(ActionComment, "say what is going on", t.ID, false)}, Data: map[string]any{"block_kind": opt(t.BlockKind)},
		})
	}
	if t.BlockRecurrences >= BlockRecurrenceLimit {
		d.add(Diagnostic{
			Kind: DiagnosticBlockLoop, Severity: SeverityError, Task: t.ID, First: since, Count: int(t.BlockRecurrences),
			Title:   fmt.Sprintf("blocked %d times for the same kind of reason", t.BlockRecurrences),
			Detail:  "unblocking it without a change leads back here" + kindWords(t),
			Actions: []Action{hint("read the card and change what it asks for", "gatewayd kanban show "+t.ID, true), unblock},
		})
	}
	return d.provider(t, since)
}

func kindWords(t Task) string {
	if t.BlockKind == "" {
		return ""
	}
	return " (" + t.BlockKind + ")"
}

// provider: the guard that waits out rate limits has given up.
func (d *diagnosis) provider(t Task, since int64) error {
	if t.BlockKind != BlockTransient {
		return nil
	}
	closed, err := collect(d.Conn, scanRunRow, selectClosed, t.ID, 1)
	if err != nil || len(closed) == 0 || closed[0].Outcome != OutcomeRateLimited {
		return err
	}
	d.add(Diagnostic{
		Kind: DiagnosticProvider, Severity: SeverityError, Task: t.ID, First: since, Run: closed[0].ID,
		Title: "given up after too many rate limits", Detail: cmp.Or(cut(closed[0].Error, maxDetail), "the provider kept refusing"),
		Actions: []Action{
			act(ActionUnblock, "unblock it when the provider answers again", t.ID, true), act(ActionReassign, "give it to a lane with another provider", t.ID, false),
		},
	})
	return nil
}

// cycling: cards that go round in circles. One statement for the board, as for stranded: every open card may be one.
func (d *diagnosis) cycling() error {
	for row, err := range d.Query(selectCycles, d.now.Add(-cycleWindow).Unix(), d.BlockCycles) {
		if err != nil {
			return err
		}
		task, n := row.Text(0), int(row.Int(1))
		d.add(Diagnostic{
			Kind: DiagnosticBlockCycling, Severity: SeverityWarning, Task: task, First: row.Int(2), Last: row.Int(3), Count: n,
			Title: fmt.Sprintf("blocked and unblocked %d times within a day", n), Detail: "whoever unblocks it does not change what blocks it",
			Actions: []Action{hint("read its history", "gatewayd kanban show "+task, true), act(ActionComment, "say what has to change", task, false)},
		})
	}
	return nil
}

// selectWaiting gives cards that could be started, and when each came to where it stands: its newest event that moves cards.
const selectWaiting = `SELECT t.id, t.assignee, COALESCE((SELECT MAX(e.created_at) FROM task_events e WHERE e.task_id = t.id AND e.kind NOT IN
    ('commented', 'attached', 'attachment_removed', 'edited', 'reprioritized', 'linked', 'unlinked', 'heartbeat', 'respawn_guarded', 'skipped_nonspawnable',
    'model_override_set', 'reasoning_effort_set', 'workspace_discarded_content', 'tip_scratch_workspace', 'suspected_hallucinated_references', 'terminal_worker_reaped')),
    t.created_at)
FROM tasks t WHERE t.status = 'ready' AND t.assignee <> '' AND t.claim_lock IS NULL AND t.created_at < ? ORDER BY t.id`

// stranded: cards that should have been started long ago.
func (d *diagnosis) stranded() error {
	for row, err := range d.Query(selectWaiting, d.now.Add(-d.Stranded).Unix()) {
		if err != nil {
			return err
		}
		if since := row.Int(2); d.now.Sub(time.Unix(since, 0)) > d.Stranded {
			d.strandedSince(row.Text(0), row.Text(1), since)
		}
	}
	return nil
}

func (d *diagnosis) strandedSince(task, lane string, since int64) {
	waited, severity := d.now.Sub(time.Unix(since, 0)), SeverityWarning
	switch {
	case waited > 6*d.Stranded:
		severity = SeverityCritical
	case waited > 2*d.Stranded:
		severity = SeverityError
	}
	d.add(Diagnostic{
		Kind: DiagnosticStranded, Severity: severity, Task: task, First: since, Title: "ready for " + lasting(waited) + ", and nobody has taken it",
		Detail:  "no worker of lane " + lane + " was started for it",
		Actions: []Action{hint("ask what holds it", "gatewayd why "+task, true), act(ActionReassign, "give it to another lane", task, false)},
		Data:    map[string]any{"assignee": lane, "waited_seconds": int64(waited / time.Second), "threshold_seconds": int64(d.Stranded / time.Second)},
	})
}

func (d *diagnosis) unsettledAfter() int64 { return d.now.Add(-d.Overdue).Unix() }

const selectSurvived = `SELECT COUNT(*), COALESCE(MIN(e.created_at), 0), COALESCE(MAX(e.created_at), 0) FROM task_events e WHERE e.run_id = ? AND e.kind = 'reclaim_deferred'`

// running: a card whose worker is not there, and one whose worker is there though it should not be.
func (d *diagnosis) running(t Task) error {
	if t.Status != StatusRunning {
		return nil
	}
	var n, first, last int64
	if _, err := d.Row(selectSurvived, []any{int64(t.CurrentRunID)}, &n, &first, &last); err != nil {
		return err
	}
	if n > 0 {
		d.add(Diagnostic{
			Kind: DiagnosticSurvivor, Severity: SeverityError, Task: t.ID, Run: t.CurrentRunID, First: first, Last: last, Count: int(n),
			Title:   "its worker was asked to end and lives on",
			Detail:  fmt.Sprintf("process %d; the card is kept so that no second worker starts beside it", t.WorkerPID),
			Actions: []Action{hint("look at the process", fmt.Sprintf("ps -fp %d", t.WorkerPID), true)},
		})
		return nil
	}
	return d.ghost(t)
}

// ghost judges by what can be seen from here: a worker on another host only by its claim's time, one of this host by its
// process. A start that is under way has no process yet, so a young run is none.
func (d *diagnosis) ghost(t Task) error {
	var started int64
	if _, err := d.Row(`SELECT r.started_at FROM task_runs r WHERE r.id = ?`, []any{int64(t.CurrentRunID)}, &started); err != nil {
		return err
	}
	since := max(cmp.Or(started, t.StartedAt), t.LastHeartbeatAt)
	if d.now.Sub(time.Unix(since, 0)) <= d.Overdue {
		return nil
	}
	why := ""
	switch local := t.ClaimLock == "" || HostLocal(t.ClaimLock); {
	case !local && t.ClaimExpires > d.unsettledAfter():
		return nil
	case !local:
		why = "claimed by " + t.ClaimLock + ", and the claim has run out"
	case t.WorkerPID == 0 && t.ClaimExpires > d.now.Unix():
		return nil // claimed by a person's hand
	case t.WorkerPID == 0:
		why = "no process is on record for it"
	case procfs.LivesAs(t.WorkerPID, t.WorkerStarted):
		return nil
	default:
		why = fmt.Sprintf("process %d is gone", t.WorkerPID)
	}
	d.add(Diagnostic{
		Kind: DiagnosticGhost, Severity: SeverityCritical, Task: t.ID, Run: t.CurrentRunID, First: since,
		Title: "running, and nobody works on it", Detail: why,
		Actions: []Action{
			hint("see whether a dispatcher runs: it frees such cards", "gatewayd status", true), act(ActionReclaim, "free the card", t.ID, false), lookAtLog(t.ID),
		},
		Data: map[string]any{"worker_pid": opt(t.WorkerPID), "claim_lock": opt(t.ClaimLock), "claim_expires": opt(t.ClaimExpires)},
	})
	return nil
}

// doubtful is also what the index gw_events_doubts is limited to, so that these few events are found among all.
const doubtful = `kind IN ('completion_blocked_hallucination', 'suspected_hallucinated_references')`

const selectDoubts = `SELECT task_id, kind, COUNT(*), MIN(created_at), MAX(created_at), COALESCE(MAX(run_id), 0), MAX(id) FROM task_events e
WHERE ` + doubtful + ` AND e.id > COALESCE((SELECT MAX(p.id) FROM task_events p WHERE p.task_id = e.task_id AND p.kind IN ('edited', 'archived')
    OR p.task_id = e.task_id AND p.kind = 'completed' AND e.kind = 'completion_blocked_hallucination'), 0)
GROUP BY task_id, kind ORDER BY task_id, kind`

// doubts: cards that workers named and nobody made.
func (d *diagnosis) doubts() error {
	type doubt struct {
		f     Diagnostic
		event int64
	}
	list, err := collect(d.Conn, func(row *sqlite.Row) doubt {
		c := &cursor{row: row}
		f := Diagnostic{Task: c.text(), Kind: c.text(), Count: int(c.num()), First: c.sec(), Last: c.sec(), Run: RunID(c.num())}
		return doubt{f, c.num()}
	}, selectDoubts)
	if err != nil {
		return err
	}
	for _, found := range list {
		f := found.f
		named, key := "", "$.phantom_refs"
		if f.Kind == "completion_blocked_hallucination" {
			key = "$.phantom_cards"
		}
		_, err := d.Row(`SELECT json_extract(CASE WHEN json_valid(payload) THEN payload END, ?) FROM task_events WHERE id = ?`, []any{key, found.event}, &named)
		if err != nil {
			return err
		}
		f.Detail = "named: " + cmp.Or(cut(named, maxDetail), "nothing that is recorded")
		f.Actions = []Action{hint("read what it claimed", "gatewayd kanban show "+f.Task, true), act(ActionComment, "say what is true", f.Task, false)}
		if f.Kind == "completion_blocked_hallucination" {
			f.Kind, f.Severity, f.Title = DiagnosticHallucinatedCards, SeverityError, "a worker claimed cards that do not exist; its completion was refused"
		} else {
			f.Kind, f.Severity, f.Title = DiagnosticPhantomRefs, SeverityWarning, "its summary speaks of cards that do not exist"
		}
		d.add(f)
	}
	return nil
}

const selectUnsettled = `SELECT g.run_id, g.task_id, g.keeper_id, r.ended_at FROM gw_runs g JOIN task_runs r ON r.id = g.run_id
WHERE g.settled_at IS NULL AND r.ended_at IS NOT NULL AND r.ended_at < ? ORDER BY g.run_id`

// unsettled: a run that is over while nobody has taken account of its worker's end. The dispatcher does within minutes.
func (d *diagnosis) unsettled() error {
	list, err := collect(d.Conn, func(row *sqlite.Row) Diagnostic {
		c := &cursor{row: row}
		f := Diagnostic{Kind: DiagnosticUnsettled, Severity: SeverityWarning, Title: "its run is over, its worker's end is not accounted for"}
		f.Run, f.Task = RunID(c.num()), c.text()
		f.Data = map[string]any{"keeper": c.text()}
		f.First = c.sec()
		return f
	}, selectUnsettled, d.unsettledAfter())
	if err != nil {
		return err
	}
	for _, f := range list {
		f.Detail = fmt.Sprintf("run %d ended; a process of it may still be there", f.Run)
		f.Actions = []Action{hint("see whether a dispatcher runs: it settles them", "gatewayd status", true)}
		d.add(f)
	}
	return nil
}

const (
	selectLateTimers = `SELECT s.task_id, s.due_at FROM gw_schedules s JOIN tasks t ON t.id = s.task_id
WHERE t.status = 'scheduled' AND s.due_at > 0 AND s.due_at < ? ORDER BY s.due_at`
	selectLateStops = `SELECT s.task_id, s.run_id, s.at, s.reason, s.actor FROM gw_stops s JOIN tasks t ON t.current_run_id = s.run_id
WHERE t.status = 'running' AND s.at < ? ORDER BY s.at`
)

// timers: a card whose time has come while nothing woke it.
func (d *diagnosis) timers() error {
	for row, err := range d.Query(selectLateTimers, d.unsettledAfter()) {
		if err != nil {
			return err
		}
		due := row.Int(1)
		d.add(Diagnostic{
			Kind: DiagnosticTimerStuck, Severity: SeverityError, Task: row.Text(0), First: due,
			Title: "due for " + lasting(d.now.Sub(time.Unix(due, 0))) + ", and nothing has woken it", Detail: "a dispatcher wakes cards when their time comes",
			Actions: []Action{hint("see whether a dispatcher runs", "gatewayd status", true), act(ActionUnblock, "let it go on by hand", row.Text(0), false)},
		})
	}
	return nil
}

// stops: somebody asked for a worker's end, and the dispatcher has not brought it about.
func (d *diagnosis) stops() error {
	for row, err := range d.Query(selectLateStops, d.unsettledAfter()) {
		if err != nil {
			return err
		}
		asked := row.Int(2)
		d.add(Diagnostic{
			Kind: DiagnosticStopUnfulfilled, Severity: SeverityError, Task: row.Text(0), Run: RunID(row.Int(1)), First: asked,
			Title:   cmp.Or(cut(row.Text(4), 80), "somebody") + " asked for its worker's end " + lasting(d.now.Sub(time.Unix(asked, 0))) + " ago, and it has not come",
			Detail:  cmp.Or(cut(row.Text(3), maxDetail), "no reason was given"),
			Actions: []Action{hint("see whether a dispatcher runs: it ends workers", "gatewayd status", true)},
		})
	}
	return nil
}

// paused: a board that somebody paused and that everybody forgot.
func (d *diagnosis) paused() error {
	p, err := readPause(d.Conn)
	if err != nil || p == nil || d.now.Sub(time.Unix(p.Since, 0)) <= d.Paused {
		return err
	}
	d.add(Diagnostic{
		Kind: DiagnosticPausedLong, Severity: SeverityWarning, First: p.Since,
		Title:   "the board has been paused for " + lasting(d.now.Sub(time.Unix(p.Since, 0))),
		Detail:  "by " + cmp.Or(cut(p.By, 80), "somebody") + ": " + cmp.Or(cut(p.Reason, maxDetail), "no reason was given"),
		Actions: []Action{hint("let it start cards again", "gatewayd kanban resume", true)},
	})
	return nil
}

// lasting says a length of time as people do.
func lasting(d time.Duration) string {
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
