package sessiondb

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// previewRunes is how much of the first user text a list shows.
const previewRunes = 60

// Append writes the rows to the lease's session in one transaction and returns them as stored. nil means durable. It is
// all or nothing: ErrLeaseLost, ErrSessionMissing and ErrSessionEnded mean that no row was written. ErrSpooled means that
// the file is in quarantine and the rows lie in the spool beside it, synced but not acknowledged. Times are made monotone
// within the batch.
func (s *Store) Append(ctx context.Context, l Lease, rows []NewMessage) ([]Message, error) {
	return s.append(ctx, l, rows, func(*sqlite.Tx) error { return nil })
}

// append is Append with something else that belongs into the same transaction. Rows that go to the spool go there without it.
func (s *Store) append(ctx context.Context, l Lease, rows []NewMessage, also func(*sqlite.Tx) error) ([]Message, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	batch, err := s.prepare(l.Session, rows)
	if err != nil {
		return nil, err
	}
	s.recallFirst(ctx)
	var out []Message
	err = s.file.Write(ctx, sqlite.Op{
		Label: "append messages", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			if err := verify(tx, l); err != nil {
				return err
			}
			stored, err := insertMessages(tx, l.Session, batch)
			out = stored
			if err != nil {
				return err
			}
			return also(tx)
		},
		Done: func(c *sqlite.Conn) (bool, error) { return hasUID(c, batch[len(batch)-1].UID) },
	})
	if err == nil || sqlite.IsCommitted(err) {
		s.work.added(len(batch))
	}
	switch {
	case err == nil || sqlite.IsCommitted(err):
		return out, err
	case s.diverts(err):
		return nil, s.divert(ctx, l, batch, err)
	}
	return nil, err
}

// hasUID settles a commit of unknown fate: rows of a batch are in together or not at all, so one of them tells.
func hasUID(c *sqlite.Conn, uid string) (bool, error) {
	return exists(c, `SELECT 1 FROM messages WHERE uid = ?`, uid)
}

// HasMessage reports whether a row with this uid is stored, live or not.
func (s *Store) HasMessage(ctx context.Context, uid string) (found bool, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) (err error) {
		found, err = hasUID(c, uid)
		return err
	})
	return found, err
}

// prepare gives each row its uid and a sane, growing time, before the transaction, so that a second run writes the same.
func (s *Store) prepare(session string, rows []NewMessage) ([]NewMessage, error) {
	return prepareRows(rows, func(given int64) {
		s.once.warn("absurd message time replaced by now", session, "session", session, "given", given)
	})
}

func prepareRows(rows []NewMessage, absurd func(given int64)) ([]NewMessage, error) {
	now := time.Now()
	batch := make([]NewMessage, len(rows))
	last := int64(0)
	for i, m := range rows {
		if err := m.check(i); err != nil {
			return nil, err
		}
		if m.UID == "" {
			m.UID = newUID(now)
		}
		at := stampOr(m.CreatedAt, now.UnixMicro())
		if !m.CreatedAt.IsZero() && at != m.CreatedAt.UnixMicro() {
			absurd(m.CreatedAt.UnixMicro())
		}
		last = min(max(at, last+1), maxStamp)
		m.CreatedAt = time.UnixMicro(last).UTC()
		batch[i] = m.scrub()
	}
	return batch, nil
}

// scrub makes the texts valid UTF-8: what is stored broken would come back changed, and never match its digest.
func (m NewMessage) scrub() NewMessage {
	for _, f := range []*string{&m.Content, &m.Wire, &m.Reasoning, &m.ToolCallID, &m.ToolName, &m.Effect, &m.FinishReason, &m.Kind, &m.TurnID} {
		if !utf8.ValidString(*f) { // much faster than ToValidUTF8, and nearly always true
			*f = strings.ToValidUTF8(*f, "\uFFFD")
		}
	}
	m.ToolCalls = bytes.ToValidUTF8(m.ToolCalls, []byte("\uFFFD"))
	if len(m.ToolCalls) == 0 {
		m.ToolCalls = nil
	}
	return m
}

// verify proves inside the transaction that the session takes rows and that this lease may write them.
func verify(tx *sqlite.Tx, l Lease) error {
	holds, expires, err := heldLease(tx, l, Turn)
	switch {
	case err != nil:
		return err
	case !holds:
		return errLeaseLost(l)
	}
	if now := time.Now(); !expires.After(now) {
		l.Expires = now.Add(max(l.TTL, time.Second))
		return renew(tx, l)
	}
	return nil
}

// heldLease says whether a lease is still the one of its session, and until when that was promised. A session that is
// gone or has ended is an error.
func heldLease(tx *sqlite.Tx, l Lease, kind LeaseKind) (holds bool, expires time.Time, err error) {
	var token, reason *string
	var at *int64
	found, err := tx.Row(`SELECT l.token, l.expires_at, s.end_reason FROM sessions s
 LEFT JOIN leases l ON l.session_id = s.id AND l.kind = ? WHERE s.id = ?`, []any{string(kind), l.Session}, &token, &at, &reason)
	switch {
	case err != nil:
		return false, time.Time{}, fmt.Errorf("verify %s lease: %w", kind, err)
	case !found:
		return false, time.Time{}, errSessionMissing(l.Session)
	case reason != nil:
		return false, time.Time{}, errSessionEnded(l.Session, *reason)
	case token == nil || l.Kind != kind || *token != l.Token:
		return false, time.Time{}, nil
	}
	return true, time.UnixMicro(*at), nil
}

const insertMessage = `INSERT INTO messages(` + messageColumns + `, session_id)
 VALUES(?1, ?2, ?3, ?1, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 1, 0, ?14, ?15)`

// countRows keeps what lists show. An absurd last_active heals with the next row, and activity wakes a session that was
// archived for its age, not one that a person archived.
const countRows = `UPDATE sessions SET message_count = message_count + ?2,
 last_active = CASE WHEN last_active BETWEEN ?3 AND ?4 THEN last_active ELSE ?3 END,
 preview = CASE WHEN preview = '' THEN ?5 ELSE preview END,
 archived = CASE archived WHEN 2 THEN 0 ELSE archived END WHERE id = ?1`

func insertMessages(tx *sqlite.Tx, session string, batch []NewMessage) ([]Message, error) {
	id, err := lastMessageID(tx.Conn)
	if err != nil {
		return nil, err
	}
	out := make([]Message, len(batch))
	preview := ""
	for i, m := range batch {
		id++
		if err := insertRow(tx, id, m, session); err != nil {
			return nil, err
		}
		if m.Role == "user" && !mutation.On("accepted-stays-beside-its-row") {
			if _, err := tx.Exec(dropInbox, m.UID); err != nil {
				return nil, fmt.Errorf("take message out of the inbox: %w", err)
			}
			if preview == "" {
				preview = previewOf(m.Content)
			}
		}
		if m.Spent != nil {
			if err := spend(tx, *m.Spent, m.UID, m.CreatedAt); err != nil {
				return nil, err
			}
		}
		out[i] = m.stored(id, session)
	}
	_, err = tx.Exec(countRows, session, len(batch), batch[len(batch)-1].CreatedAt.UnixMicro(), maxStamp, preview)
	return out, err
}

// lastMessageID is the greatest id that any row ever had.
func lastMessageID(c *sqlite.Conn) (id int64, err error) {
	var last *int64
	if _, err := c.Row(`SELECT seq FROM sqlite_sequence WHERE name = 'messages'`, nil, &last); err != nil {
		return 0, fmt.Errorf("read last message id: %w", err)
	}
	if last != nil {
		id = *last
	}
	return id, nil
}

func insertRow(tx *sqlite.Tx, id int64, m NewMessage, session string) error {
	_, err := tx.Exec(insertMessage, id, m.UID, null(m.TurnID), m.Role, m.Content, null(m.Wire), null(string(m.ToolCalls)), null(m.ToolCallID),
		null(m.ToolName), null(m.Effect), null(m.FinishReason), null(m.Reasoning), null(m.Kind), m.CreatedAt.UnixMicro(), session)
	if err != nil {
		return fmt.Errorf("insert message: %w", err)
	}
	return nil
}

func (m NewMessage) stored(id int64, session string) Message {
	return Message{
		ID: id, UID: m.UID, SessionID: session, TurnID: m.TurnID, OriginID: id, Role: m.Role, Content: m.Content, Wire: m.Wire,
		ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, ToolName: m.ToolName, Effect: m.Effect, FinishReason: m.FinishReason,
		Reasoning: m.Reasoning, Kind: m.Kind, Active: true, CreatedAt: m.CreatedAt,
	}
}

// previewOf is the start of a text on one line. It runs for each user row inside the transaction, so it stops as soon as
// it has enough.
func previewOf(s string) string {
	out, gap := make([]rune, 0, previewRunes+2), false
	for i, r := range s[:min(len(s), 4*previewRunes+64)] {
		switch {
		case unicode.IsSpace(r):
			gap = len(out) > 0
			continue
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"): // a broken byte, or where the text was cut
			continue
		case gap:
			out, gap = append(out, ' '), false
		}
		if out = append(out, r); len(out) > previewRunes {
			return string(out[:previewRunes-1]) + "…"
		}
	}
	return string(out)
}
