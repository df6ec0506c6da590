package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
)

// chunkRows bounds a chunk of tiny rows.
const chunkRows = 256

// advance indexes the next rows above the mark, as many as budget bytes of text, at least one. A stale index is made
// new instead. more: there may be rows left.
func (ix index) advance(tx *sqlite.Tx, budget int64) (more bool, err error) {
	mark, stale, err := ix.readMark(tx.Conn)
	if err != nil {
		return false, err
	}
	if stale {
		return true, ix.recreate(tx)
	}
	to, more, err := chunkEnd(tx.Conn, mark, budget)
	if err != nil || to == mark {
		return false, err
	}
	if _, err := tx.Exec(`UPDATE meta SET v = ? WHERE k = ?`, to, ix.mark); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ix.chunkSQL(), mark, to); err != nil {
		return false, &indexError{err: err}
	}
	_, err = tx.Exec(ix.flushSQL()) // else the cost shows up in the COMMIT and nobody can measure it
	if err != nil {
		return false, &indexError{err: err}
	}
	return more, nil
}

func (ix index) chunkSQL() string {
	return fmt.Sprintf(`INSERT INTO %s(rowid, content) SELECT id, content FROM %s WHERE id > ? AND id <= ? ORDER BY id`, ix.table, ix.view)
}

func (ix index) flushSQL() string {
	return fmt.Sprintf(`INSERT INTO %[1]s(%[1]s) VALUES('flush')`, ix.table)
}

// chunkEnd is the last row that fits, by the sizes of the texts, which are read without the texts.
func chunkEnd(c *sqlite.Conn, mark, budget int64) (to int64, more bool, err error) {
	to, used, rows := mark, int64(0), 0
	for r, err := range c.Query(`SELECT id, octet_length(content) FROM messages WHERE id > ? ORDER BY id LIMIT ?`, mark, chunkRows+1) {
		if err != nil {
			return mark, false, err
		}
		used += r.Int(1)
		if rows > 0 && (used > budget || rows == chunkRows) {
			return to, true, nil
		}
		to = r.Int(0)
		rows++
	}
	return to, false, nil
}

// merge runs one bounded merge step; worked says whether there was something to merge.
func (ix index) merge(tx *sqlite.Tx) (worked bool, err error) {
	if _, stale, err := ix.readMark(tx.Conn); err != nil || stale {
		return false, err
	}
	var before, after int64
	if _, err := tx.Row(`SELECT total_changes()`, nil, &before); err != nil {
		return false, err
	}
	if _, err := tx.Exec(fmt.Sprintf(`INSERT INTO %[1]s(%[1]s, rank) VALUES('merge', 16)`, ix.table)); err != nil {
		return false, &indexError{err: err}
	}
	_, err = tx.Row(`SELECT total_changes()`, nil, &after)
	return after-before >= 2, err
}

// behind says how many rows lie above the mark of an index, counting no further than most.
func (ix index) behind(c *sqlite.Conn, most int) (mark int64, rows int, err error) {
	if mark, _, err = ix.readMark(c); err != nil {
		return 0, 0, err
	}
	_, err = c.Row(`SELECT count(*) FROM (SELECT 1 FROM messages WHERE id > ? LIMIT ?)`, []any{mark, most}, &rows)
	return mark, rows, err
}

// WaitIndexed returns when both indexes hold every row that was there at some moment after the call. Without a running
// indexer it does the steps itself.
func (s *Store) WaitIndexed(ctx context.Context) error {
	if s.ReadOnly() {
		return s.readOnly
	}
	return s.approach(ctx, 1, words, fragments)
}

// approach brings the indexes so far that fewer than rows lie above their marks.
func (s *Store) approach(ctx context.Context, rows int, which ...int) error {
	for _, i := range which {
		for {
			next := s.work.progress.next()
			far, err := s.farBehind(ctx, i, rows)
			if err != nil || !far {
				if err != nil {
					return err
				}
				break
			}
			if err := s.advanceOnce(ctx, i, next); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) farBehind(ctx context.Context, i, rows int) (far bool, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		_, n, err := indexes[i].behind(c, rows)
		far = n >= rows
		return err
	})
	return far, err
}

func (s *Store) advanceOnce(ctx context.Context, i int, next <-chan struct{}) error {
	if !s.work.isRunning() {
		_, _, err := s.step(ctx, i)
		if errors.Is(err, errDeferred) {
			return rest(ctx, rebuildPoll)
		}
		if err != nil {
			return err
		}
		return s.mergeDue(ctx, i)
	}
	s.work.kick()
	poll := time.NewTimer(time.Second) // a step that found nothing to do may have been told before we asked
	defer poll.Stop()
	select {
	case <-next:
	case <-poll.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
