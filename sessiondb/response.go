package sessiondb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Response is an answer that a client of the Responses API may name later. Its JSON is the API's own; the rows of its turn hold what was
// said.
type Response struct {
	ID           string
	Session      string
	Owner        string // id of the key that asked for it; nobody else sees it
	Previous     string
	Conversation string
	UID          string // of the message that it answers
	Turn         string
	Row          int64  // last row of its turn: where the next one goes on
	Status       string // one of the Response… words
	Background   bool
	Request      json.RawMessage
	Input        json.RawMessage
	Output       json.RawMessage
	Result       json.RawMessage
	CreatedAt    time.Time
	EndedAt      *time.Time
}

// Statuses of a response. The first two are open.
const (
	ResponseQueued     = "queued"
	ResponseInProgress = "in_progress"
	ResponseCompleted  = "completed"
	ResponseIncomplete = "incomplete"
	ResponseFailed     = "failed"
	ResponseCancelled  = "cancelled"
)

const (
	responseColumns = `id, session_id, owner, previous, conversation, turn_id, row_id, status, background, request, input, output, result, created_at, ended_at, uid`
	putResponse     = `INSERT INTO responses(id, session_id, owner, previous, conversation, status, background, request, input, created_at, uid)
 VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	endResponse = `UPDATE responses SET status = ?2, turn_id = ?3, row_id = ?4, output = ?5, result = ?6, ended_at = ?7 WHERE id = ?1 AND ended_at IS NULL`

	// wentOn finds what stands behind a response in its session: another one that goes on there, a message that was said, or one that waits.
	wentOn = `SELECT 1 FROM responses WHERE previous = ?1 AND session_id = ?2
 UNION ALL SELECT 1 FROM messages WHERE session_id = ?2 AND id > ?3 AND origin_id = id AND role = 'user' AND (kind IS NULL OR kind NOT IN ('` + KindSummary + `', '` + KindModelOnly + `'))
 UNION ALL SELECT 1 FROM inbox WHERE session_id = ?2`
)

// PutResponse stores a response that has begun. Its session exists.
func (s *Store) PutResponse(ctx context.Context, r Response) error {
	_, err := s.putResponse(ctx, r, func(*sqlite.Tx) (bool, error) { return true, nil })
	return err
}

// ContinueResponse stores a response that goes on in the session of the one before it, if nothing stands behind that: false means that
// somebody was quicker, or that something else was said there, and nothing was written. Two that go on from one never get the same place.
func (s *Store) ContinueResponse(ctx context.Context, r Response, before Response) (bool, error) {
	return s.putResponse(ctx, r, func(tx *sqlite.Tx) (bool, error) {
		taken, err := exists(tx.Conn, wentOn, before.ID, before.Session, before.Row)
		if mutation.On("branches-share-a-session") {
			taken = false
		}
		return !taken, err
	})
}

func (s *Store) putResponse(ctx context.Context, r Response, free func(*sqlite.Tx) (bool, error)) (put bool, err error) {
	err = s.file.Write(ctx, sqlite.Op{
		Label: "put response", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			if put, err = free(tx); err != nil || !put {
				return err
			}
			_, err := tx.Exec(putResponse, r.ID, r.Session, r.Owner, null(r.Previous), null(r.Conversation), r.Status, r.Background,
				jsonOr(r.Request, `{}`), jsonOr(r.Input, `[]`), r.CreatedAt.UnixMicro(), r.UID)
			return during("put response", err)
		},
		Done: func(c *sqlite.Conn) (bool, error) { return exists(c, `SELECT 1 FROM responses WHERE id = ?`, r.ID) },
	})
	return put, err
}

func jsonOr(raw json.RawMessage, none string) string {
	if len(raw) == 0 {
		return none
	}
	return string(raw)
}

// EndResponse stores the end of a response, once: one that has an end keeps it. It needs Status, and takes Turn, Row, Output and Result.
func (s *Store) EndResponse(ctx context.Context, r Response) error {
	now := time.Now().UnixMicro()
	return s.file.Write(ctx, sqlite.Op{
		Label: "end response", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			_, err := tx.Exec(endResponse, r.ID, r.Status, null(r.Turn), r.Row, jsonOr(r.Output, `[]`), jsonOr(r.Result, `{}`), now)
			return during("end response", err)
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM responses WHERE id = ? AND ended_at IS NOT NULL`, r.ID)
		},
	})
}

// Response reads one response of an owner; a NotFound problem when there is none, or when it is somebody else's.
func (s *Store) Response(ctx context.Context, owner, id string) (out Response, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		found := false
		for r, err := range c.Query(`SELECT `+responseColumns+` FROM responses WHERE id = ?`, id) {
			if err != nil {
				return fmt.Errorf("read response: %w", err)
			}
			out, found = scanResponse(r), true
		}
		if !found || out.Owner != owner && !mutation.On("responses-of-everybody") {
			return errResponseMissing(id)
		}
		return nil
	})
	return out, err
}

// ResponseOf finds the response of an owner by the uid of the message that it answers.
func (s *Store) ResponseOf(ctx context.Context, owner, uid string) (out Response, found bool, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		found = false
		for r, err := range c.Query(`SELECT `+responseColumns+` FROM responses WHERE uid = ? AND owner = ?`, uid, owner) {
			if err != nil {
				return fmt.Errorf("read response: %w", err)
			}
			out, found = scanResponse(r), true
		}
		return nil
	})
	return out, found, err
}

func errResponseMissing(id string) error {
	return &problem.Error{Kind: problem.NotFound, Thing: fmt.Sprintf("response %.80q", id), What: "does not exist", Remedy: "responses are kept for a while (api.keep_responses), and not with `store: false`"}
}

func scanResponse(r *sqlite.Row) Response {
	out := Response{
		ID: r.Text(0), Session: r.Text(1), Owner: r.Text(2), Previous: text(r, 3), Conversation: text(r, 4), UID: r.Text(15), Turn: text(r, 5),
		Status: r.Text(7), Background: r.Bool(8), Request: json.RawMessage(r.Text(9)), Input: json.RawMessage(r.Text(10)),
		Output: json.RawMessage(r.Text(11)), Result: json.RawMessage(r.Text(12)), CreatedAt: moment(r.Int(13)), EndedAt: momentOr(r, 14),
	}
	if !r.Null(6) {
		out.Row = r.Int(6)
	}
	return out
}

// DeleteResponse forgets a response of an owner. Its rows stay in the session.
func (s *Store) DeleteResponse(ctx context.Context, owner, id string) error {
	return s.file.Write(ctx, sqlite.Op{
		Label: "delete response", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			res, err := tx.Exec(`DELETE FROM responses WHERE id = ? AND owner = ?`, id, owner)
			if err == nil && res.Changes == 0 {
				return errResponseMissing(id)
			}
			return during("delete response", err)
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			there, err := exists(c, `SELECT 1 FROM responses WHERE id = ?`, id)
			return !there, err
		},
	})
}

// KeepResponses forgets responses that are older than age, and of the others the oldest beyond most. What was said in them stays. It
// gives their number.
func (s *Store) KeepResponses(ctx context.Context, age time.Duration, most int) (gone int, err error) {
	before := time.Now().Add(-age).UnixMicro()
	err = s.file.Write(ctx, sqlite.Op{
		Label: "forget responses", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			res, err := tx.Exec(`DELETE FROM responses WHERE created_at < ?1 OR id IN (SELECT id FROM responses ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?2)`, before, most)
			if err == nil {
				gone = int(res.Changes)
			}
			return during("forget responses", err)
		},
		Done: func(*sqlite.Conn) (bool, error) { return false, nil },
	})
	return gone, err
}
