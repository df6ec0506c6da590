package kanban

import (
	"context"
	"regexp"

	"gatewayd/internal/sqlite"
)

// pullRequest is how a comment names one.
var pullRequest = regexp.MustCompile(`https?://github\.com/[\w.-]+/[\w.-]+/pull/\d+`)

const (
	// A card that was handed on since a comment was written may have another pull request by its next worker.
	selectRecentComments = `SELECT c.body, c.created_at FROM task_comments c WHERE c.task_id = ?1 AND c.created_at > ?2
    AND c.created_at >= COALESCE((SELECT MAX(e.created_at) FROM task_events e WHERE e.task_id = ?1 AND e.kind IN ('assigned', 'changes_requested', 'review_reopened')), 0)
ORDER BY c.id DESC`
	selectPRPass = `SELECT COALESCE(MAX(CASE WHEN kind = 'existing_pr_authorized' THEN id END), 0) > COALESCE(MAX(CASE WHEN kind = 'existing_pr_authorization_consumed' THEN id END), 0)
FROM task_events WHERE task_id = ? AND kind IN ('existing_pr_authorized', 'existing_pr_authorization_consumed')`
)

// PullRequest is a GitHub pull request that a comment of a card names.
type PullRequest struct {
	URL        string
	At         int64 // when the comment was written
	Authorized bool  // one start is allowed all the same
}

// ActivePR finds the newest one in the comments after since, in epoch seconds, that the card was not handed on after.
func (b *Board) ActivePR(ctx context.Context, task string, since int64) (PullRequest, error) {
	var found PullRequest
	err := b.peek(ctx, func(c *sqlite.Conn) error {
		found = PullRequest{}
		for row, err := range c.Query(selectRecentComments, task, since) {
			if err != nil {
				return err
			}
			if url := pullRequest.FindString(row.Text(0)); url != "" && found.URL == "" {
				found.URL, found.At = url, row.Int(1)
			}
		}
		if found.URL == "" {
			return nil
		}
		_, err := c.Row(selectPRPass, []any{task}, &found.Authorized)
		return err
	})
	return found, err
}

// AuthorizeExistingPR lets a card start once although a comment names a pull request.
func (b *Board) AuthorizeExistingPR(ctx context.Context, task, actor string) error {
	return b.write(ctx, "authorize existing pull request", func(t *txn) error {
		if _, err := loadTask(t.Conn, task); err != nil {
			return err
		}
		return t.event(task, 0, "existing_pr_authorized", payload{{"actor", opt(clean(actor))}})
	})
}

// PRAuthorizationUsed notes that a start took the permission.
func (b *Board) PRAuthorizationUsed(ctx context.Context, task string) error {
	return b.write(ctx, "use authorization", func(t *txn) error {
		return t.event(task, 0, "existing_pr_authorization_consumed", nil)
	})
}
