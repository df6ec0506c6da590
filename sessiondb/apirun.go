package sessiondb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Run is a turn that nobody has to wait for, as the HTTP API tells of it.
type Run struct {
	ID        string
	Session   string
	Turn      string          // empty until it has begun
	Owner     string          // id of the key that asked for it
	UID       string          // of the message that it answers
	Response  string          // the response that it makes, if it does
	Model     string          // as the client named it
	Request   json.RawMessage // what else was asked for, as the caller of PutRun writes it; nil: nothing
	Status    string          // one of the Run… words
	Result    json.RawMessage
	Error     string    // why there is no answer
	CreatedAt time.Time // when it was asked for
	StartedAt *time.Time
	EndedAt   *time.Time
	Forgotten int64 // its newest event that was dropped because there were too many; 0: all are there
}

// Statuses of a run. The first four are open; of the others each run gets exactly one.
const (
	RunQueued      = "queued"
	RunRunning     = "running"
	RunWaiting     = "waiting_for_approval"
	RunStopping    = "stopping"
	RunCompleted   = "completed"
	RunFailed      = "failed"
	RunCancelled   = "cancelled"
	RunInterrupted = "interrupted" // by the end of the daemon, and not gone on with
)

// RunEvent is one thing that a run showed. Seq is 1 for the first and has no gaps.
type RunEvent struct {
	Seq  int64
	Name string
	Body json.RawMessage
	At   time.Time
}

// RunChange is what becomes of a run together with its next events. Empty fields leave what is there. Ended ends it, with Status, Result and Error.
type RunChange struct {
	Status string
	Turn   string
	Result json.RawMessage
	Error  string
	Ended  bool
}

// Bounds of what is kept of one run. The oldest events go first, and Forgotten tells; the last one, with the whole answer, always stays.
const (
	MaxRunEvents = 10_000
	runTrim      = 500 // so many go at once
)

// ErrRunEnded: the run has its end already.
var ErrRunEnded = errors.New("run has ended")

const (
	runColumns = `id, session_id, turn_id, owner, uid, response, model, status, result, error, created_at, started_at, ended_at, forgotten, request`
	putRun     = `INSERT INTO runs(id, session_id, owner, uid, response, model, status, created_at, request) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)`
	changeRun  = `UPDATE runs SET status = coalesce(?2, status), turn_id = coalesce(?3, turn_id), result = coalesce(?4, result), error = coalesce(?5, error),
 started_at = CASE WHEN started_at IS NULL AND ?3 IS NOT NULL THEN ?6 ELSE started_at END, ended_at = CASE WHEN ?7 THEN ?6 END WHERE id = ?1`
	putRunEvent = `INSERT INTO run_events(run_id, seq, name, body, created_at) VALUES(?, ?, ?, ?, ?)`
	lastEvent   = `SELECT coalesce(max(seq), 0) FROM run_events WHERE run_id = ?`
)

// NewRun is a run that is asked for, with its first event. Accept stores it together with its message, so that there is never one of them.
type NewRun struct {
	Run
	First RunEvent
}

func (r *NewRun) put(tx *sqlite.Tx) error {
	_, err := tx.Exec(putRun, r.ID, r.Session, r.Owner, r.UID, null(r.Response), r.Model, r.Status, r.CreatedAt.UnixMicro(), string(r.Request))
	if err == nil && r.First.Name != "" {
		_, err = tx.Exec(putRunEvent, r.ID, 1, r.First.Name, string(r.First.Body), r.CreatedAt.UnixMicro())
	}
	return during("put run", err)
}

// AppendRun stores events of an open run and what becomes of it, in one transaction, and gives the events with their numbers. ErrRunEnded:
// it has its end, and nothing was written. So whoever sees an event sees it again at its number, after whatever happens.
func (s *Store) AppendRun(ctx context.Context, id string, change RunChange, events []RunEvent) ([]RunEvent, error) {
	now := time.Now()
	out := make([]RunEvent, len(events))
	err := s.file.Write(ctx, sqlite.Op{
		Label: "append run", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			if err := openRun(tx, id); err != nil {
				return err
			}
			var last int64
			if _, err := tx.Row(lastEvent, []any{id}, &last); err != nil {
				return err
			}
			for i, e := range events {
				e.Seq, e.At = last+1+int64(i), now.Truncate(time.Microsecond).UTC()
				out[i] = e
				if _, err := tx.Exec(putRunEvent, id, e.Seq, e.Name, string(e.Body), now.UnixMicro()); err != nil {
					return during("put run event", err)
				}
			}
			if _, err := tx.Exec(changeRun, id, null(change.Status), null(change.Turn), null(string(change.Result)), null(change.Error), now.UnixMicro(), change.Ended); err != nil {
				return during("change run", err)
			}
			return trimRun(tx, id, last+int64(len(events)))
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			if len(out) == 0 || out[len(out)-1].Seq == 0 {
				return false, nil
			}
			end := out[len(out)-1]
			return exists(c, `SELECT 1 FROM run_events WHERE run_id = ? AND seq = ? AND body = ?`, id, end.Seq, string(end.Body))
		},
	})
	if err != nil && !sqlite.IsCommitted(err) {
		return nil, err
	}
	return out, err
}

func openRun(tx *sqlite.Tx, id string) error {
	var ended *int64
	found, err := tx.Row(`SELECT ended_at FROM runs WHERE id = ?`, []any{id}, &ended)
	switch {
	case err != nil:
		return fmt.Errorf("read run: %w", err)
	case !found:
		return errRunMissing(id)
	case ended != nil && !mutation.On("run-ends-twice"):
		return &problem.Error{Kind: problem.Conflict, Thing: "run " + id, What: "has ended already", Fate: "nothing was changed", Err: mark{ErrRunEnded}}
	}
	return nil
}

func trimRun(tx *sqlite.Tx, id string, last int64) error {
	var forgotten int64
	if _, err := tx.Row(`SELECT forgotten FROM runs WHERE id = ?`, []any{id}, &forgotten); err != nil {
		return err
	}
	if last-forgotten < MaxRunEvents+runTrim {
		return nil
	}
	upTo := last - MaxRunEvents
	if _, err := tx.Exec(`DELETE FROM run_events WHERE run_id = ? AND seq <= ?`, id, upTo); err != nil {
		return during("drop run events", err)
	}
	_, err := tx.Exec(`UPDATE runs SET forgotten = ? WHERE id = ?`, upTo, id)
	return during("drop run events", err)
}

func errRunMissing(id string) error {
	return &problem.Error{Kind: problem.NotFound, Thing: "run " + id, What: "does not exist", Remedy: "runs are kept for a while after their end (api.keep_runs)"}
}

// Run reads one run; a NotFound problem when there is none.
func (s *Store) Run(ctx context.Context, id string) (Run, error) {
	list, err := s.queryRuns(ctx, ` WHERE id = ?`, id)
	if err == nil && len(list) == 0 {
		err = errRunMissing(id)
	}
	if err != nil {
		return Run{}, err
	}
	return list[0], nil
}

// RunFilter chooses runs, the newest first; the zero value gives the newest 50 of all.
type RunFilter struct {
	Owner    *string // nil: of all
	Session  string  // empty: of all
	Response string
	UID      string // of the message
	Open     bool   // those without an end
	Limit    int    // 0: 50; at most 500, but for Open, which gives all
}

// Runs lists runs.
func (s *Store) Runs(ctx context.Context, f RunFilter) ([]Run, error) {
	limit := min(max(f.Limit, 0), maxListLimit)
	if limit == 0 {
		limit = defaultListLimit
	}
	if f.Open {
		limit = -1
	}
	var owner any
	if f.Owner != nil {
		owner = *f.Owner
	}
	return s.queryRuns(ctx, ` WHERE (?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR session_id = ?2) AND (NOT ?3 OR ended_at IS NULL) AND (?5 IS NULL OR response = ?5) AND (?6 IS NULL OR uid = ?6)
 ORDER BY created_at DESC, id DESC LIMIT ?4`, owner, null(f.Session), f.Open, limit, null(f.Response), null(f.UID))
}

func (s *Store) queryRuns(ctx context.Context, where string, args ...any) (out []Run, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out = nil
		for r, err := range c.Query(`SELECT `+runColumns+` FROM runs`+where, args...) {
			if err != nil {
				return fmt.Errorf("read runs: %w", err)
			}
			out = append(out, scanRun(r))
		}
		return nil
	})
	return out, err
}

func scanRun(r *sqlite.Row) Run {
	run := Run{
		ID: r.Text(0), Session: text(r, 1), Turn: text(r, 2), Owner: r.Text(3), UID: r.Text(4), Response: text(r, 5), Model: r.Text(6),
		Status: r.Text(7), Error: text(r, 9), CreatedAt: moment(r.Int(10)), StartedAt: momentOr(r, 11), EndedAt: momentOr(r, 12), Forgotten: r.Int(13),
	}
	if !r.Null(8) {
		run.Result = json.RawMessage(r.Text(8))
	}
	if request := r.Text(14); request != "" {
		run.Request = json.RawMessage(request)
	}
	return run
}

// momentOr is a time that may not have come.
func momentOr(r *sqlite.Row, i int) *time.Time {
	if r.Null(i) {
		return nil
	}
	at := moment(r.Int(i))
	return &at
}

// RunEvents reads events of a run behind a number, at most limit of them; an unknown run has none.
func (s *Store) RunEvents(ctx context.Context, id string, after int64, limit int) (out []RunEvent, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out = nil
		for r, err := range c.Query(`SELECT seq, name, body, created_at FROM run_events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?`, id, after, limit) {
			if err != nil {
				return fmt.Errorf("read run events: %w", err)
			}
			out = append(out, RunEvent{Seq: r.Int(0), Name: r.Text(1), Body: json.RawMessage(r.Text(2)), At: moment(r.Int(3))})
		}
		return nil
	})
	return out, err
}

// TurnOf reads the rows of the turn that answers a message, by the uid of that, folded or not; none when it is no row.
func (s *Store) TurnOf(ctx context.Context, uid string) (out []Message, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		var session, turn string
		out = nil
		found, err := c.Row(`SELECT session_id, coalesce(turn_id, '') FROM messages WHERE uid = ?`, []any{uid}, &session, &turn)
		if err != nil || !found || turn == "" {
			return err
		}
		rows, err := s.queryMessages(c, nil, selectTurnOnce, session, turn)
		for i, m := range rows {
			if i+1 == len(rows) || rows[i+1].OriginID != m.OriginID { // a copy that a compaction made stands for its original
				out = append(out, m)
			}
		}
		return err
	})
	return out, err
}

// selectTurnOnce gives what is shown of a turn, in the order in which it was said.
const selectTurnOnce = selectRow + ` FROM messages WHERE session_id = ?1 AND turn_id = ?2 AND (active = 1 OR compacted = 1) ORDER BY origin_id, active, id`

// KeepRuns forgets runs that ended longer ago than age, and of the others the oldest beyond most. What was said in them stays. It gives
// their number.
func (s *Store) KeepRuns(ctx context.Context, age time.Duration, most int) (gone int, err error) {
	before := time.Now().Add(-age).UnixMicro()
	err = s.file.Write(ctx, sqlite.Op{
		Label: "forget runs", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			res, err := tx.Exec(`DELETE FROM runs WHERE ended_at IS NOT NULL AND (ended_at < ?1 OR id IN (
 SELECT id FROM runs WHERE ended_at IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?2))`, before, most)
			if err == nil {
				gone = int(res.Changes)
			}
			return during("forget runs", err)
		},
		Done: func(*sqlite.Conn) (bool, error) { return false, nil },
	})
	return gone, err
}
