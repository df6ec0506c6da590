package kanban

import (
	"context"
	"strings"
	"unicode/utf8"
)

const insertComment = `INSERT INTO task_comments (task_id, author, body, created_at) VALUES (?, ?, ?, ?)`

// Comment adds a remark to a card in any status. The author is the caller's identity, never something a worker chose.
func (b *Board) Comment(ctx context.Context, task, author, body string) (Comment, error) {
	author, body = clean(strings.TrimSpace(author)), b.said(clean(strings.TrimSpace(body)))
	if author == "" {
		author = "user"
	}
	if body == "" {
		return Comment{}, invalidField("body", "the comment", "is empty", "say something")
	}
	var made Comment
	err := b.write(ctx, "comment on card", func(t *txn) (err error) {
		made, err = t.comment(task, author, body)
		return err
	})
	if err != nil && !Committed(err) {
		return Comment{}, err
	}
	return made, err
}

func (t *txn) comment(task, author, body string) (Comment, error) {
	if _, err := loadTask(t.Conn, task); err != nil {
		return Comment{}, err
	}
	res, err := t.Exec(insertComment, task, author, body, t.now)
	if err != nil {
		return Comment{}, err
	}
	made := Comment{ID: res.LastID, TaskID: task, Author: author, Body: body, CreatedAt: t.now}
	return made, t.event(task, 0, "commented", payload{{"author", author}, {"len", utf8.RuneCountInString(body)}})
}
