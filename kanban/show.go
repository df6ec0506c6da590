package kanban

import (
	"context"
	"encoding/json"

	"gatewayd/internal/sqlite"
)

// Detail is a card with everything around it.
type Detail struct {
	Task          Task
	LatestSummary string // of the newest run that has one
	Parents       []string
	Children      []string
	Comments      []Comment
	Events        []Event
	Runs          []Run
	Attachments   []Attachment
}

// Attachment is a file that belongs to a card.
type Attachment struct {
	ID          int64  `json:"id"`
	Filename    string `json:"filename"`
	StoredPath  string `json:"stored_path"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	UploadedBy  string `json:"uploaded_by"`
	CreatedAt   int64  `json:"created_at"`
}

type detailComment struct {
	Author    string `json:"author"`
	Body      string `json:"body"`
	CreatedAt int64  `json:"created_at"`
}

type detailEvent struct {
	Kind      string          `json:"kind"`
	Payload   json.RawMessage `json:"payload"`
	CreatedAt int64           `json:"created_at"`
	RunID     *RunID          `json:"run_id"`
}

// MarshalJSON gives the shape that Hermes' show prints, and the card's files.
func (d Detail) MarshalJSON() ([]byte, error) {
	wire := struct {
		Task          Task            `json:"task"`
		LatestSummary *string         `json:"latest_summary"`
		Parents       []string        `json:"parents"`
		Children      []string        `json:"children"`
		Comments      []detailComment `json:"comments"`
		Events        []detailEvent   `json:"events"`
		Runs          []Run           `json:"runs"`
		Attachments   []Attachment    `json:"attachments"`
	}{
		d.Task, opt(d.LatestSummary), append([]string{}, d.Parents...), append([]string{}, d.Children...),
		[]detailComment{},
		[]detailEvent{},
		append([]Run{}, d.Runs...),
		append([]Attachment{}, d.Attachments...),
	}
	for _, c := range d.Comments {
		wire.Comments = append(wire.Comments, detailComment{c.Author, c.Body, c.CreatedAt})
	}
	for _, e := range d.Events {
		wire.Events = append(wire.Events, detailEvent{e.Kind, e.Payload, e.CreatedAt, opt(e.RunID)})
	}
	return json.Marshal(wire)
}

const (
	selectParents     = `SELECT parent_id FROM task_links WHERE child_id = ? ORDER BY parent_id`
	selectChildren    = `SELECT child_id FROM task_links WHERE parent_id = ? ORDER BY child_id`
	selectComments    = `SELECT id, task_id, author, body, created_at FROM task_comments WHERE task_id = ? ORDER BY created_at, id`
	selectTaskEvents  = `SELECT ` + eventColumns + ` FROM task_events e WHERE e.task_id = ? ORDER BY e.id`
	selectRuns        = `SELECT ` + runColumns + ` FROM task_runs r WHERE r.task_id = ? ORDER BY r.started_at, r.id`
	selectAttachments = `SELECT id, filename, stored_path, content_type, size, uploaded_by, created_at FROM task_attachments WHERE task_id = ? ORDER BY created_at, id`
)

// Show gives a card with its links, comments, history and attempts, all of one moment.
func (b *Board) Show(ctx context.Context, id string) (Detail, error) {
	var d Detail
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		d, err = loadDetail(c, id)
		return err
	})
	return d, err
}

func loadDetail(c *sqlite.Conn, id string) (d Detail, err error) {
	if d.Task, err = loadTask(c, id); err != nil {
		return d, err
	}
	for _, step := range []func() error{
		func() error { d.Parents, err = texts(c, selectParents, id); return err },
		func() error { d.Children, err = texts(c, selectChildren, id); return err },
		func() error { d.Comments, err = collect(c, scanComment, selectComments, id); return err },
		func() error { d.Events, err = collect(c, scanEvent, selectTaskEvents, id); return err },
		func() error { d.Runs, err = collect(c, scanRunRow, selectRuns, id); return err },
		func() error { d.Attachments, err = collect(c, scanAttachment, selectAttachments, id); return err },
	} {
		if err := step(); err != nil {
			return d, err
		}
	}
	for _, r := range d.Runs {
		if r.Summary != "" {
			d.LatestSummary = r.Summary
		}
	}
	return d, nil
}

func scanRunRow(row *sqlite.Row) Run { return scanRun(row, 0) }

func scanComment(row *sqlite.Row) Comment {
	c := &cursor{row: row}
	return Comment{ID: c.num(), TaskID: c.text(), Author: c.text(), Body: c.text(), CreatedAt: c.sec()}
}

func scanAttachment(row *sqlite.Row) Attachment {
	c := &cursor{row: row}
	return Attachment{
		ID: c.num(), Filename: c.text(), StoredPath: c.text(), ContentType: c.text(), Size: c.num(), UploadedBy: c.text(), CreatedAt: c.sec(),
	}
}

// Runs gives the attempts at a card, oldest first.
func (b *Board) Runs(ctx context.Context, id string) ([]Run, error) {
	var runs []Run
	err := b.read(ctx, func(c *sqlite.Conn) error {
		if _, err := loadTask(c, id); err != nil {
			return err
		}
		var err error
		runs, err = collect(c, scanRunRow, selectRuns, id)
		return err
	})
	return runs, err
}

// TaskEvents gives the history of one card, oldest first.
func (b *Board) TaskEvents(ctx context.Context, id string) ([]Event, error) {
	var list []Event
	err := b.read(ctx, func(c *sqlite.Conn) error {
		if _, err := loadTask(c, id); err != nil {
			return err
		}
		var err error
		list, err = collect(c, scanEvent, selectTaskEvents, id)
		return err
	})
	return list, err
}
