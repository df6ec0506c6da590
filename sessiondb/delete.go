package sessiondb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Bounds of a deletion. A list of ids goes to SQLite as one argument, in chunks that keep the list small. What is dear is
// to take a text out of the indexes, a third of a millisecond for a kilobyte: with more than deleteMost messages or
// deleteBytes of text, rows go in steps of about deleteTime, and writers in between.
const (
	deleteChunk = 900
	deleteMost  = 2000
	deleteBytes = 256 << 10
	deleteTime  = 5 * time.Millisecond

	firstDeletes = 8 // rows in the first step, before one was measured
	mostDeletes  = 300
)

// EndDeleted ends a session whose rows are being deleted in steps. It is hidden and nothing reopens it; a process killed
// in between leaves the rest to the next Delete or Prune.
const EndDeleted = "deleted"

// Deleted says what was removed from the file.
type Deleted struct {
	Sessions int `json:"sessions"`
	Messages int `json:"messages"`
}

// Delete removes sessions with everything that is theirs: messages, their entries in the search indexes, usage, leases,
// routes, and system prompts that nobody else has. Sessions that came from them stay and lose their parent.
//
// Nothing is removed unless all can be: ErrSessionMissing, or ErrLeaseHeld where a living process has a turn or a
// compaction. Up to 2,000 messages and 256 KB of text go in one transaction. With more, the sessions are ended and hidden in
// one transaction, and their rows go in steps with rests between; an error then means that the rest is still there, hidden.
func (s *Store) Delete(ctx context.Context, ids ...string) (Deleted, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(ids) == 0 {
		return Deleted{}, nil
	}
	var out Deleted
	more := false
	err := s.maintain(ctx, "delete sessions", func(tx *sqlite.Tx) (err error) {
		out, more, err = s.deleteAtOnce(tx, ids)
		return err
	}, func(c *sqlite.Conn) (bool, error) {
		there, err := exists(c, `SELECT 1 FROM sessions WHERE id = ? AND end_reason IS NOT '`+EndDeleted+`'`, ids[0])
		return !there, err
	})
	if err == nil && more {
		out, err = s.deleteInSteps(ctx, ids)
	}
	if err == nil {
		s.log.Info("sessions deleted", "sessions", out.Sessions, "messages", out.Messages, "path", s.file.Path())
	}
	return out, err
}

// maintain writes through the gate of maintenance; a search index that proves to be damaged is taken out of use first.
func (s *Store) maintain(ctx context.Context, label string, do func(*sqlite.Tx) error, done func(*sqlite.Conn) (bool, error)) error {
	return s.withoutDamagedIndex(ctx, func() error {
		return s.file.Maintain(ctx, sqlite.OpPrune, sqlite.Op{Label: label, Patience: sqlite.Ordinary, Do: do, Done: done})
	})
}

// weigh counts messages, and their bytes without reading them, as far as it decides anything.
const weigh = `SELECT count(*), coalesce(sum(size), 0) FROM (SELECT octet_length(content) AS size FROM messages
 WHERE session_id IN (SELECT value FROM json_each(?1)) LIMIT ?2)`

// deleteAtOnce removes everything, or where that would hold the writer for too long only says that it is to go.
func (s *Store) deleteAtOnce(tx *sqlite.Tx, ids []string) (out Deleted, more bool, err error) {
	rows, size := 0, 0
	for chunk := range slices.Chunk(ids, deleteChunk) {
		list := jsonList(chunk)
		if err := deletable(tx, list); err != nil {
			return Deleted{}, false, err
		}
		n, bytes := 0, 0
		if _, err := tx.Row(weigh, []any{list, deleteMost + 1}, &n, &bytes); err != nil {
			return Deleted{}, false, err
		}
		rows, size = rows+n, size+bytes
	}
	if rows > deleteMost || size > deleteBytes {
		return Deleted{}, true, condemn(tx, ids)
	}
	for {
		n, err := deleteMessages(tx, ids, deleteChunk)
		if err != nil {
			return Deleted{}, false, err
		}
		if out.Messages += n; n == 0 {
			break
		}
	}
	out.Sessions = len(ids)
	return out, false, dropSessions(tx, ids)
}

// deleteInSteps removes the rows of condemned sessions, and then these.
func (s *Store) deleteInSteps(ctx context.Context, ids []string) (out Deleted, err error) {
	for rows := firstDeletes; ; {
		var n int
		var took time.Duration
		err := s.maintain(ctx, "delete messages", func(tx *sqlite.Tx) (err error) {
			began := time.Now()
			n, err = deleteMessages(tx, ids, rows)
			if took = time.Since(began); err == nil && n == 0 {
				err = dropSessions(tx, ids)
			}
			return err
		}, nil)
		if err != nil {
			return out, err
		}
		if out.Messages += n; n == 0 {
			out.Sessions = len(ids)
			return out, nil
		}
		rows = s.pace(n, took)
		if err := s.betweenDeletes(ctx, took); err != nil {
			return out, err
		}
	}
}

// paceByTime gives the rows of the next step, by what these took.
func paceByTime(rows int, took time.Duration) int {
	return min(max(int(int64(rows)*int64(deleteTime)/max(int64(took), 1)), 1), mostDeletes)
}

// betweenDeletes leaves the writer to others, and keeps the segments that deletions leave in the indexes few.
func (s *Store) betweenDeletes(ctx context.Context, took time.Duration) error {
	for i := range indexes {
		if err := s.mergeDue(ctx, i); err != nil {
			return err
		}
	}
	return rest(ctx, took)
}

// deletable refuses a list with an unknown session, or one that somebody works in.
func deletable(tx *sqlite.Tx, list string) error {
	for r, err := range tx.Query(`SELECT value FROM json_each(?) WHERE value NOT IN (SELECT id FROM sessions) LIMIT 1`, list) {
		if err != nil {
			return err
		}
		return errSessionMissing(r.Text(0))
	}
	for r, err := range tx.Query(`SELECT `+leaseColumns+` FROM leases WHERE session_id IN (SELECT value FROM json_each(?))`, list) {
		if err != nil {
			return err
		}
		if l := scanLease(r); l.runs(time.Now()) && !l.Holder.Dead() {
			return &problem.Error{
				Kind: problem.Busy, Thing: sessionThing(l.Session), What: fmt.Sprintf("is in use by %s", l.Holder),
				Fate: "nothing was deleted", Remedy: "wait for its turn to end or interrupt it", Err: &HeldError{l},
			}
		}
	}
	return nil
}

// condemn ends and hides sessions whose rows go in steps. The end stamp of before gives way: there will be no session.
func condemn(tx *sqlite.Tx, ids []string) error {
	for chunk := range slices.Chunk(ids, deleteChunk) {
		list := jsonList(chunk)
		_, err := tx.Exec(`UPDATE sessions SET hidden = 1, pinned = 0, ended_at = ?2, end_reason = '`+EndDeleted+`' WHERE id IN (SELECT value FROM json_each(?1))`,
			list, time.Now().UnixMicro())
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM routes WHERE session_id IN (SELECT value FROM json_each(?))`, list); err != nil {
			return err
		}
	}
	return nil
}

// deleteMessages removes some messages of the sessions, from the indexes first: these must be shown the text they hold.
func deleteMessages(tx *sqlite.Tx, ids []string, most int) (n int, err error) {
	for chunk := range slices.Chunk(ids, deleteChunk) {
		rows := []int64{}
		for r, err := range tx.Query(`SELECT id FROM messages WHERE session_id IN (SELECT value FROM json_each(?)) LIMIT ?`, jsonList(chunk), most-n) {
			if err != nil {
				return n, err
			}
			rows = append(rows, r.Int(0))
		}
		list := jsonList(rows)
		if err := forgetAll(tx, list); err != nil {
			return n, err
		}
		if _, err := tx.Exec(`DELETE FROM messages WHERE id IN (SELECT value FROM json_each(?))`, list); err != nil {
			return n, fmt.Errorf("delete messages: %w", err)
		}
		if n += len(rows); n == most {
			break
		}
	}
	return n, nil
}

// forgetAll takes rows out of the indexes that are in use, as far as these have come.
func forgetAll(tx *sqlite.Tx, list string) error {
	for i, ix := range indexes {
		if _, stale, err := ix.readMark(tx.Conn); err != nil || stale || mutation.On("delete-leaves-index-entries") {
			if err != nil {
				return err
			}
			continue
		}
		if _, err := tx.Exec(ix.forgetAllSQL(), list); err != nil {
			return blame(i, err)
		}
		if _, err := tx.Exec(ix.flushSQL()); err != nil { // else the cost shows up in the COMMIT and nobody can measure it
			return blame(i, err)
		}
	}
	return nil
}

func (ix index) forgetAllSQL() string {
	return fmt.Sprintf(`INSERT INTO %[1]s(%[1]s, rowid, content) SELECT 'delete', id, content FROM %[2]s WHERE id IN (SELECT value FROM json_each(?))`, ix.table, ix.view)
}

// The texts that sessions keep in prompts: the system prompt, and the list of tools that the model was told of.
const (
	textsOf = `SELECT prompt_hash FROM sessions WHERE prompt_hash IS NOT NULL AND id IN (SELECT value FROM json_each(?1))
 UNION SELECT ` + toolsetHash + ` FROM sessions WHERE ` + toolsetHash + ` IS NOT NULL AND id IN (SELECT value FROM json_each(?1))`
	dropTexts = `DELETE FROM prompts WHERE hash IN (SELECT value FROM json_each(?1) EXCEPT SELECT prompt_hash FROM sessions EXCEPT SELECT ` + toolsetHash + ` FROM sessions)`
)

// dropSessions removes the sessions, by whose cascade everything small of theirs goes, and prompts and lists of tools that nobody else has.
func dropSessions(tx *sqlite.Tx, ids []string) error {
	for chunk := range slices.Chunk(ids, deleteChunk) {
		prompts := []string{}
		for r, err := range tx.Query(textsOf, jsonList(chunk)) {
			if err != nil {
				return err
			}
			prompts = append(prompts, r.Text(0))
		}
		if _, err := tx.Exec(`DELETE FROM sessions WHERE id IN (SELECT value FROM json_each(?))`, jsonList(chunk)); err != nil {
			return fmt.Errorf("delete sessions: %w", err)
		}
		if _, err := tx.Exec(`DELETE FROM grants WHERE session_id IN (SELECT value FROM json_each(?))`, jsonList(chunk)); err != nil {
			return fmt.Errorf("delete grants: %w", err)
		}
		if err := bury(tx, jsonList(chunk), time.Now().UnixMicro()); err != nil {
			return err
		}
		_, err := tx.Exec(dropTexts, jsonList(prompts))
		if err != nil {
			return fmt.Errorf("delete prompts: %w", err)
		}
	}
	return nil
}

// jsonList is any number of values as one argument, for json_each.
func jsonList[T int64 | string](values []T) string {
	list, _ := json.Marshal(values) // strings and numbers always marshal
	return string(list)
}

// busy reports that a deletion was refused because somebody works in the session.
func busy(err error) bool { return errors.Is(err, ErrLeaseHeld) }
