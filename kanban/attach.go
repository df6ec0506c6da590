package kanban

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// NewAttachment says what a file is that is attached to a card.
type NewAttachment struct {
	Filename    string // as the sender calls it; it is cleaned
	ContentType string
	By          string // who attaches it
	Run         *RunID // the run that the caller acts for; nil = a person
}

const (
	insertAttachment = `INSERT INTO task_attachments (task_id, filename, stored_path, content_type, size, uploaded_by, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?)`
	selectAttachment  = `SELECT id, filename, stored_path, content_type, size, uploaded_by, created_at FROM task_attachments WHERE id = ?`
	selectAttachedTo  = `SELECT task_id FROM task_attachments WHERE id = ?`
	deleteAttachment  = `DELETE FROM task_attachments WHERE id = ?`
	selectPathIsTaken = `SELECT EXISTS (SELECT 1 FROM task_attachments WHERE stored_path = ?)`
)

// Attach stores a file and its row. The file is on disk, synced, before there is a row that names it; without the row it is
// nobody's and goes. At most MaxAttachment bytes of r are taken (ErrTooLarge beyond). Two files of one name are kept apart by
// a number. It blocks for as long as r does.
func (b *Board) Attach(ctx context.Context, task string, a NewAttachment, r io.Reader) (Attachment, error) {
	name := cleanFilename(a.Filename)
	if name == "" {
		return Attachment{}, invalid("file name "+quote(a.Filename), "leaves nothing to call the file by", "give it a name with a letter or a digit")
	}
	err := b.read(ctx, func(c *sqlite.Conn) error {
		card, err := loadTask(c, task)
		if err == nil {
			err = a.admit(card)
		}
		return err
	})
	if err != nil {
		return Attachment{}, err
	}
	stored, err := b.store(task, name, uploaded, r)
	if err != nil {
		return Attachment{}, err
	}
	var made Attachment
	err = b.write(ctx, "attach file", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err == nil {
			err = a.admit(card)
		}
		if err == nil {
			made, err = t.attach(task, card.CurrentRunID, a, stored, "")
		}
		return err
	})
	if err != nil && !Committed(err) {
		return Attachment{}, errors.Join(err, b.dropBlobs([]string{stored.path}))
	}
	return made, err
}

// admit is the fence for who names a run.
func (a NewAttachment) admit(card Task) error {
	if a.Run != nil && (card.Status != StatusRunning || *a.Run == 0 || *a.Run != card.CurrentRunID) {
		return staleRun(card.ID, *a.Run, card)
	}
	return nil
}

// attach writes the row of a stored file. source is where in the card's workspace it came from.
func (t *txn) attach(task string, run RunID, a NewAttachment, stored blob, source string) (Attachment, error) {
	made := Attachment{
		Filename: stored.name, StoredPath: stored.path, ContentType: clean(strings.TrimSpace(a.ContentType)), Size: stored.size,
		UploadedBy: clean(a.By), CreatedAt: t.now,
	}
	res, err := t.Exec(insertAttachment, task, made.Filename, made.StoredPath, opt(made.ContentType), made.Size, opt(made.UploadedBy), made.CreatedAt)
	if err != nil {
		return Attachment{}, err
	}
	made.ID = res.LastID
	p := payload{{"filename", made.Filename}, {"size", made.Size}, {"by", opt(made.UploadedBy)}}
	if source != "" {
		p = append(p, field{"source", source})
	}
	return made, t.event(task, run, EventAttached, p)
}

// Attachments gives the files of a card, oldest first.
func (b *Board) Attachments(ctx context.Context, task string) ([]Attachment, error) {
	var list []Attachment
	err := b.read(ctx, func(c *sqlite.Conn) error {
		if _, err := loadTask(c, task); err != nil {
			return err
		}
		var err error
		list, err = collect(c, scanAttachment, selectAttachments, task)
		return err
	})
	return list, err
}

// OpenAttachment opens a file for reading. A row whose path does not lead to a regular file below the board's attachments is
// refused, wherever it leads. The caller closes the file.
func (b *Board) OpenAttachment(ctx context.Context, id int64) (Attachment, *os.File, error) {
	var a Attachment
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		a, err = loadAttachment(c, id)
		return err
	})
	if err != nil {
		return a, nil, err
	}
	f, err := b.openBlob(a.StoredPath)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil, &problem.Error{
			Kind: problem.NotFound, Thing: attachmentThing(a), What: "is not on this machine any more: " + a.StoredPath, Fate: unchanged,
			Remedy: "put the file back, or remove the attachment", Err: mark{ErrNotFound},
		}
	}
	if err != nil {
		return a, nil, &problem.Error{
			Kind: problem.Denied, Thing: attachmentThing(a), What: "cannot be read as a file of this board", Fate: unchanged,
			Remedy: "remove the attachment; its path leads out of " + b.attachments, Err: err,
		}
	}
	return a, f, nil
}

func loadAttachment(c *sqlite.Conn, id int64) (Attachment, error) {
	found, err := collect(c, scanAttachment, selectAttachment, id)
	if err == nil && len(found) == 0 {
		err = &problem.Error{
			Kind: problem.NotFound, Thing: attachmentThing(Attachment{ID: id}), What: "is not on this board", Fate: unchanged,
			Remedy: "list a card's files with `gatewayd kanban attachments CARD`", Err: mark{ErrNotFound},
		}
	}
	if err != nil {
		return Attachment{}, err
	}
	return found[0], nil
}

func attachmentThing(a Attachment) string {
	thing := "attachment " + strconv.FormatInt(a.ID, 10)
	if a.Filename != "" {
		thing += " (" + quote(a.Filename) + ")"
	}
	return thing
}

// RemoveAttachment takes a file off its card. The file itself goes only when no other row has the same path.
func (b *Board) RemoveAttachment(ctx context.Context, id int64, by string) error {
	var gone []string
	err := b.write(ctx, "remove attachment", func(t *txn) (err error) {
		gone, err = t.detach(id, by)
		return err
	})
	if err != nil && !Committed(err) {
		return err
	}
	if drop := b.dropBlobs(gone); drop != nil {
		b.log.Warn("file of a removed attachment stays", "path", strings.Join(gone, ", "), "error", drop)
	}
	return err
}

func (t *txn) detach(id int64, by string) (gone []string, err error) {
	a, err := loadAttachment(t.Conn, id)
	if err != nil {
		return nil, err
	}
	var task string
	if _, err := t.Row(selectAttachedTo, []any{id}, &task); err != nil {
		return nil, err
	}
	if err := t.must("remove attachment", deleteAttachment, id); err != nil {
		return nil, err
	}
	if err := t.event(task, 0, "attachment_removed", payload{{"filename", a.Filename}, {"by", opt(clean(by))}}); err != nil {
		return nil, err
	}
	return t.unnamed([]string{a.StoredPath})
}

// unnamed leaves, of the paths of rows that this transaction removed, those that no row has any more.
func (t *txn) unnamed(paths []string) (gone []string, err error) {
	for _, path := range unique(paths) {
		var taken bool
		if _, err := t.Row(selectPathIsTaken, []any{path}, &taken); err != nil {
			return nil, err
		}
		if !taken || mutation.On("blob-removed-under-another-row") {
			gone = append(gone, path)
		}
	}
	return gone, nil
}

// vacate removes what a deleted card left on disk: the files that no row names any more, as long as they lie where files of
// this board belong, and its scratch workspace.
func (b *Board) vacate(task string, gone []string) error {
	return errors.Join(b.dropBlobs(gone), b.dropWorkspace(task))
}
