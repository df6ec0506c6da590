package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Waiting is a message that was accepted and is no row yet. Its row will have its uid, and the transaction that stores the row
// takes the message out of the inbox, so it is delivered once whatever happens in between.
type Waiting struct {
	ID          int64 // order of acceptance
	UID         string
	Session     string
	Mode        InboxMode
	Source, Dir string
	Content     string
	Wire        string
	Attempts    int // starts of a daemon that have tried to say it
	CreatedAt   time.Time
}

// InboxMode is what a waiting message is for.
type InboxMode string

// The modes.
const (
	InboxTurn  InboxMode = "turn"  // it gets a turn of its own
	InboxSteer InboxMode = "steer" // it goes into the turn that runs
)

// ErrInboxFull: as many messages wait as may.
var ErrInboxFull = errors.New("inbox full")

const (
	inboxColumns = `id, uid, session_id, mode, source, dir, content, wire, attempts, created_at`
	putInbox     = `INSERT INTO inbox(uid, session_id, mode, source, dir, content, wire, created_at) VALUES(?, ?, ?, ?, ?, ?, ?, ?)`
)

// Accept puts a message into its session's inbox and gives its place there, 1 for the first. When it returns without an error the
// message survives whatever comes. One whose uid waits already, or is a row already (place 0), is not put there again. At most
// limit messages wait in one session (ErrInboxFull). It needs no lease: it changes nothing that was said. A run that answers the message is
// stored in the same transaction; nil: nobody follows it.
func (s *Store) Accept(ctx context.Context, w Waiting, limit int, run *NewRun) (place int, err error) {
	row := NewMessage{UID: w.UID, Role: "user", Content: w.Content, Wire: w.Wire}
	if err := row.check(0); err != nil {
		return 0, err
	}
	row = row.scrub()
	now := time.Now()
	if w.UID == "" {
		return 0, errInvalid("message", "has no uid")
	}
	if run != nil && mutation.On("run-before-its-message") {
		if err := s.file.Write(ctx, sqlite.Op{Label: "put run", Patience: sqlite.Transcript, Do: run.put}); err != nil {
			return 0, err
		}
		run = nil
	}
	err = s.file.Write(ctx, sqlite.Op{
		Label: "accept message", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) (err error) {
			if place, err = w.put(tx, row, limit, now); err != nil || run == nil {
				return err
			}
			if _, err := tx.Exec(endTurn, w.Session, foundingTurn); err != nil {
				return during("begin session", err)
			}
			return run.put(tx)
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			if run != nil {
				return exists(c, `SELECT 1 FROM runs WHERE id = ?`, run.ID)
			}
			return exists(c, `SELECT 1 FROM inbox WHERE uid = ?`, w.UID)
		},
	})
	if err != nil && !sqlite.IsCommitted(err) {
		return 0, err
	}
	return place, err
}

// put gives the message its place, unless it has one.
func (w Waiting) put(tx *sqlite.Tx, row NewMessage, limit int, now time.Time) (place int, err error) {
	if known, err := hasUID(tx.Conn, w.UID); err != nil || known {
		return 0, err
	}
	waiting, err := inboxOf(tx.Conn, w.Session)
	if err != nil {
		return 0, err
	}
	for i, one := range waiting {
		if one.UID == w.UID {
			return i + 1, nil
		}
	}
	if len(waiting) >= limit {
		return 0, errInboxFull(w.Session, len(waiting))
	}
	if found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, w.Session); err != nil || !found {
		return 0, firstError(err, missingUnless(found, w.Session))
	}
	_, err = tx.Exec(putInbox, w.UID, w.Session, string(w.Mode), w.Source, w.Dir, row.Content, null(row.Wire), now.UnixMicro())
	return len(waiting) + 1, during("accept message", err)
}

func errInboxFull(session string, n int) error {
	return &problem.Error{
		Kind: problem.Busy, Thing: sessionThing(session), What: fmt.Sprintf("has %d messages waiting already", n),
		Fate: "the message was not stored", Remedy: "wait until some are answered", Err: mark{ErrInboxFull},
	}
}

// Withdraw takes a message out of the inbox that has not become a row, and reports whether it was there.
func (s *Store) Withdraw(ctx context.Context, uid string) (was bool, err error) {
	err = s.file.Write(ctx, sqlite.Op{
		Label: "withdraw message", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			res, err := tx.Exec(dropInbox, uid)
			was = err == nil && res.Changes > 0
			return during("withdraw message", err)
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			there, err := exists(c, `SELECT 1 FROM inbox WHERE uid = ?`, uid)
			return !there, err
		},
	})
	return was, err
}

// dropInbox stands beside every insertion of a person's row: a message is never both accepted and said.
const dropInbox = `DELETE FROM inbox WHERE uid = ?`

// Inbox lists what waits in a session, or with an empty id in all of them, in the order of acceptance.
func (s *Store) Inbox(ctx context.Context, session string) (out []Waiting, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		if session != "" {
			out, err = inboxOf(c, session)
		} else {
			out, err = queryInbox(c, ` ORDER BY id`)
		}
		return err
	})
	return out, err
}

func inboxOf(c *sqlite.Conn, session string) ([]Waiting, error) {
	return queryInbox(c, ` WHERE session_id = ? ORDER BY id`, session)
}

func queryInbox(c *sqlite.Conn, where string, args ...any) (out []Waiting, err error) {
	for r, err := range c.Query(`SELECT `+inboxColumns+` FROM inbox`+where, args...) {
		if err != nil {
			return nil, fmt.Errorf("read inbox: %w", err)
		}
		out = append(out, Waiting{
			ID: r.Int(0), UID: r.Text(1), Session: r.Text(2), Mode: InboxMode(r.Text(3)), Source: r.Text(4), Dir: r.Text(5),
			Content: r.Text(6), Wire: text(r, 7), Attempts: int(r.Int(8)), CreatedAt: moment(r.Int(9)),
		})
	}
	return out, nil
}

// Tried counts a try to say messages that wait, durably, before the try: one that ends the daemon each time is known by it.
func (s *Store) Tried(ctx context.Context, uids ...string) error {
	if len(uids) == 0 {
		return nil
	}
	return s.file.Write(ctx, sqlite.Op{
		Label: "try messages", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			for _, uid := range uids {
				if _, err := tx.Exec(`UPDATE inbox SET attempts = attempts + 1 WHERE uid = ?`, uid); err != nil {
					return fmt.Errorf("count a try: %w", err)
				}
			}
			return nil
		},
		// A count too many after a commit of unknown fate gives a message up one start early, which a person is told.
		Done: func(*sqlite.Conn) (bool, error) { return false, nil },
	})
}
