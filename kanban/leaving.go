package kanban

import (
	"context"
	"encoding/json"

	"gatewayd/internal/enclosure"
	"gatewayd/internal/sqlite"
)

// Leaving is the workspace of a card that is over, and of whose children, who may read its files, all are over too.
type Leaving struct {
	Task, Kind   string
	Path, Branch string // as the card has them
}

// Terminal are done and archived, and what newer Hermes calls terminal as well.
const whereLeft = ` t.status IN ('done', 'archived') AND NOT EXISTS (SELECT 1 FROM task_links l JOIN tasks c ON c.id = l.child_id
    WHERE l.parent_id = t.id AND c.status NOT IN ('done', 'archived', 'failed', 'cancelled'))`

const (
	selectLeft      = `SELECT t.id, t.workspace_kind, t.workspace_path, t.branch_name FROM tasks t WHERE t.id = ? AND` + whereLeft
	selectLeftTrees = `SELECT t.id, t.workspace_kind, t.workspace_path, t.branch_name FROM tasks t
WHERE t.workspace_kind = 'worktree' AND t.workspace_path IS NOT NULL AND` + whereLeft + `
UNION ALL SELECT e.task_id, 'worktree', json_extract(e.payload, '$.worktree'), json_extract(e.payload, '$.branch') FROM task_events e
WHERE ` + ofDeleted + ` AND json_valid(e.payload) AND json_extract(e.payload, '$.worktree') IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = e.task_id)`
	ofDeleted = `kind = 'deleted'`

	// A card that is gone needs nothing. Two cards may name one place: it stays while the other one is not over.
	selectTreeNeeded = `SELECT EXISTS (SELECT 1 FROM tasks t WHERE t.id = ?1 AND NOT (` + whereLeft + `))
    OR EXISTS (SELECT 1 FROM tasks o WHERE o.workspace_path = ?2 AND o.id <> ?1 AND o.status NOT IN ('done', 'archived'))`
)

func scanLeaving(row *sqlite.Row) Leaving {
	c := &cursor{row: row}
	return Leaving{Task: c.text(), Kind: c.text(), Path: c.text(), Branch: c.text()}
}

// LeavingScratch gives those of the named cards whose scratch workspace nobody needs any more.
func (b *Board) LeavingScratch(ctx context.Context, tasks ...string) ([]Leaving, error) {
	var list []Leaving
	err := b.peek(ctx, func(c *sqlite.Conn) error {
		list = nil
		for _, task := range tasks {
			found, err := collect(c, scanLeaving, selectLeft, task)
			if err != nil {
				return err
			}
			if len(found) == 1 && (found[0].Kind == WorkspaceScratch || found[0].Kind == "") {
				list = append(list, found[0])
			}
		}
		return nil
	})
	return list, err
}

// LeavingWorktrees gives every worktree of a card that is over or was deleted. Most are long gone from the disk.
func (b *Board) LeavingWorktrees(ctx context.Context) ([]Leaving, error) {
	var list []Leaving
	err := b.peek(ctx, func(c *sqlite.Conn) (err error) {
		list, err = collect(c, scanLeaving, selectLeftTrees)
		return err
	})
	return list, err
}

// WorktreeLeft reports whether nobody needs a card's worktree at this moment: neither it nor its children, nor another card
// that is to be worked on in the same place.
func (b *Board) WorktreeLeft(ctx context.Context, l Leaving) (left bool, err error) {
	needed := true
	err = b.peek(ctx, func(c *sqlite.Conn) error {
		_, err := c.Row(selectTreeNeeded, []any{l.Task, l.Path}, &needed)
		return err
	})
	return err == nil && !needed, err
}

// Declared gives the files of a card's workspace, relative to it, that were copied to its attachments.
func (b *Board) Declared(ctx context.Context, task string) (map[string]bool, error) {
	events, err := b.TaskEvents(ctx, task)
	declared := map[string]bool{}
	for _, e := range events {
		var p struct {
			Source string `json:"source"`
		}
		if e.Kind == EventAttached && json.Unmarshal(e.Payload, &p) == nil && p.Source != "" {
			declared[p.Source] = true
		}
	}
	return declared, err
}

// worthNoting is how much undeclared content of a workspace its card's history tells of.
const worthNoting = 1 << 10

const selectLastNote = `SELECT payload FROM task_events WHERE task_id = ? AND kind = ? ORDER BY id DESC LIMIT 1`

// NoteDiscarded tells a card's history what goes with its workspace, when that is 1 KiB or more. It reports whether it did:
// what was told before a removal that failed is not told again.
func (b *Board) NoteDiscarded(ctx context.Context, task, path string, c enclosure.Contents) (noted bool, err error) {
	if c.Bytes < worthNoting {
		return false, nil
	}
	const kind = "workspace_discarded_content"
	p := payload{{"path", clean(path)}, {"total_bytes", c.Bytes}, {"file_count", c.Files}, {"sample", cleanAll(c.Sample)}}
	text, err := p.encode()
	if err != nil {
		return false, err
	}
	var last string
	err = b.read(ctx, func(conn *sqlite.Conn) error {
		_, err := conn.Row(selectLastNote, []any{task, kind}, &last)
		return err
	})
	if err != nil || last == text {
		return false, err
	}
	return true, b.note(ctx, task, 0, kind, p)
}

// NoteTip tells the history of the first card that is worked on in a scratch directory what becomes of it.
func (b *Board) NoteTip(ctx context.Context, task string, run RunID, message string) error {
	return b.note(ctx, task, run, "tip_scratch_workspace", payload{{"message", message}})
}

func (b *Board) note(ctx context.Context, task string, run RunID, kind string, p payload) error {
	return b.write(ctx, "note "+kind, func(t *txn) error {
		if _, err := loadTask(t.Conn, task); err != nil {
			return err
		}
		return t.event(task, run, kind, p)
	})
}

func cleanAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = clean(s)
	}
	return out
}
