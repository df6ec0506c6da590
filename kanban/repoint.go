package kanban

import (
	"context"
	"path/filepath"
	"strings"
)

// Repoint gives the attachments of a board that lay elsewhere, as one that was restored on a new machine did, their places here. was is
// where its file lay. Rows that name another place are left as they are.
func (r *Root) Repoint(ctx context.Context, slug Slug, was string) error {
	old := beside(Options{Path: was, Slug: slug}, "attachments")
	if now := r.AttachmentsDir(slug); old == now {
		return nil
	}
	b, err := Open(ctx, Options{Path: r.DBPath(slug), Slug: slug})
	if err != nil {
		return err
	}
	defer b.Close()
	rows, err := b.allAttachments(ctx)
	if err != nil || len(rows) == 0 {
		return err
	}
	return b.write(ctx, "move attachments", func(t *txn) error {
		for _, row := range rows {
			name, ours := strings.CutPrefix(row.path, old+string(filepath.Separator))
			if !ours {
				continue
			}
			if err := t.must("move attachment", `UPDATE task_attachments SET stored_path = ? WHERE id = ?`, filepath.Join(r.AttachmentsDir(slug), name), row.id); err != nil {
				return err
			}
		}
		return nil
	})
}
