package kanban

import (
	"context"
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
)

// txn is one verb's transaction. All its times are one reading of the clock.
type txn struct {
	*sqlite.Tx
	now   int64
	first int64 // id of the first event it wrote; 0 = none yet
	last  Event // the newest
}

// write runs a verb in one IMMEDIATE transaction. do may run more than once, so it sets what it answers anew each time.
// Where the fate of the commit is unknown, the verb's last event tells: event ids are never used twice.
func (b *Board) write(ctx context.Context, label string, do func(*txn) error) error {
	t := &txn{}
	err := b.file.Write(ctx, sqlite.Op{
		Label: label, Patience: b.patience,
		Do: func(tx *sqlite.Tx) error {
			t = &txn{Tx: tx, now: time.Now().Unix()}
			if b.fence != nil {
				if _, err := b.fence.current(tx.Conn); err != nil {
					return err
				}
			}
			if err := do(t); err != nil || t.first == 0 {
				return err
			}
			return t.post(t.first, t.last.ID) // at the end, when the card is as the verb leaves it
		},
		Done: func(c *sqlite.Conn) (bool, error) { return t.landed(c) },
	})
	return b.explain(err)
}

func (b *Board) read(ctx context.Context, do func(*sqlite.Conn) error) error {
	return b.explain(b.file.Read(ctx, do))
}

// peek is a short read for the dispatcher, which looks at every board and must not keep a second connection on each.
func (b *Board) peek(ctx context.Context, do func(*sqlite.Conn) error) error {
	return b.explain(b.file.Peek(ctx, do))
}

const (
	insertEvent = `INSERT INTO task_events (task_id, run_id, kind, payload, created_at) VALUES (?, ?, ?, ?, ?)`
	selectEvent = `SELECT 1 FROM task_events WHERE id = ? AND task_id = ? AND kind = ? AND payload IS ? AND created_at = ?`
)

// event writes one line of history. A payload with nothing in it is NULL.
func (t *txn) event(task string, run RunID, kind string, p payload) error {
	text, err := p.encode()
	if err != nil {
		return invalid("payload of "+kind, err.Error(), "send plain JSON")
	}
	res, err := t.Exec(insertEvent, task, opt(int64(run)), kind, opt(text), t.now)
	if err != nil {
		return fmt.Errorf("write event %s: %w", kind, err)
	}
	if t.first == 0 {
		t.first = res.LastID
	}
	t.last = Event{ID: res.LastID, TaskID: task, RunID: run, Kind: kind, Payload: rawJSON(text), CreatedAt: t.now}
	return nil
}

func (t *txn) landed(c *sqlite.Conn) (bool, error) {
	if t.last.ID == 0 {
		return false, nil
	}
	var one int64
	return c.Row(selectEvent, []any{t.last.ID, t.last.TaskID, t.last.Kind, opt(string(t.last.Payload)), t.last.CreatedAt}, &one)
}

// must runs a statement that a guard has shown to hit exactly one row.
func (t *txn) must(what, sql string, args ...any) error {
	res, err := t.Exec(sql, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if res.Changes != 1 {
		return fmt.Errorf("%s: changed %d rows instead of one", what, res.Changes)
	}
	return nil
}

func (t *txn) run(what, sql string, args ...any) (int64, error) {
	res, err := t.Exec(sql, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return res.Changes, nil
}
