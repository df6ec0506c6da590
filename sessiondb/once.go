package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Bounds of what is remembered of requests that must not be done twice.
const (
	OnceFor    = 24 * time.Hour // as long as a client may come back with its key
	onceMost   = 10_000         // requests remembered at once; beyond it new keys are refused, for one that is forgotten early would be done twice
	OnceAnswer = 1 << 20        // bytes of an answer that is kept; a stream of some thousand words
	onceBytes  = 64 << 20       // of all answers together; the oldest are given up first, and their requests stay known
	onceStep   = 200            // rows of one transaction when they are forgotten
)

// onceBounds are onceMost and onceBytes, but for a test.
type onceBounds struct{ most, bytes int64 }

// Once is a request that is to be done once, under the key that its client gave it. Status 0: it was begun and has not ended, or its
// process did. An answer that was too large, or was given up for its age, has Kept false.
type Once struct {
	Scope, Key string // together they name it
	Request    string // digest of what was asked
	UID        string // of the message that it stores, if it does
	Status     int
	Headers    string // JSON
	Body       string
	Kept       bool // Body is the whole answer
	CreatedAt  time.Time
}

// ErrOnceFull: as many requests are remembered as may be.
var ErrOnceFull = errors.New("too many requests are remembered")

const (
	onceColumns = `scope, key, request, coalesce(uid, ''), coalesce(status, 0), coalesce(headers, ''), response, created_at`
	selectOnce  = `SELECT ` + onceColumns + ` FROM idempotency WHERE scope = ? AND key = ? AND expires_at > ?`
	putOnce     = `INSERT INTO idempotency(scope, key, request, uid, created_at, expires_at) VALUES(?, ?, ?, ?, ?, ?)
 ON CONFLICT(scope, key) DO UPDATE SET request = excluded.request, uid = excluded.uid, status = NULL, headers = NULL, response = NULL,
 created_at = excluded.created_at, expires_at = excluded.expires_at`
	settleOnce = `UPDATE idempotency SET status = ?, headers = ?, response = ? WHERE scope = ? AND key = ? AND uid = ?`
	dropOnce   = `DELETE FROM idempotency WHERE scope = ? AND key = ? AND uid = ?`
	countOnce  = `SELECT count(*) FROM (SELECT 1 FROM idempotency INDEXED BY idempotency_expiry WHERE expires_at > ? LIMIT ?)`
)

// ClaimOnce writes down that a request is about to be done, before anything of it is. mine is false when it is known already: held
// is then what is known. ErrOnceFull: it was not taken.
func (s *Store) ClaimOnce(ctx context.Context, o Once) (held Once, mine bool, err error) {
	now := time.Now()
	o.CreatedAt = now
	err = s.file.Write(ctx, sqlite.Op{
		Label: "claim request", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			found, known, err := queryOnce(tx.Conn, o.Scope, o.Key, now)
			if held, mine = found, false; err != nil || known {
				return err
			}
			var n int64
			if _, err := tx.Row(countOnce, []any{now.UnixMicro(), s.bounds.most}, &n); err != nil {
				return during("count remembered requests", err)
			}
			if n >= s.bounds.most {
				return errOnceFull(n)
			}
			held, mine = o, true
			_, err = tx.Exec(putOnce, o.Scope, o.Key, o.Request, o.UID, now.UnixMicro(), now.Add(OnceFor).UnixMicro())
			return during("claim request", err)
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM idempotency WHERE scope = ? AND key = ? AND uid = ?`, o.Scope, o.Key, o.UID)
		},
	})
	return held, mine && err == nil, err
}

func queryOnce(c *sqlite.Conn, scope, key string, now time.Time) (o Once, found bool, err error) {
	for r, err := range c.Query(selectOnce, scope, key, now.UnixMicro()) {
		if err != nil {
			return o, false, fmt.Errorf("read remembered request: %w", err)
		}
		found = true
		o = Once{
			Scope: r.Text(0), Key: r.Text(1), Request: r.Text(2), UID: r.Text(3), Status: int(r.Int(4)), Headers: r.Text(5), Body: text(r, 6),
			Kept: !r.Null(6), CreatedAt: moment(r.Int(7)),
		}
	}
	return o, found, nil
}

// SettleOnce remembers how a claimed request was answered.
func (s *Store) SettleOnce(ctx context.Context, o Once) error {
	var body any
	if o.Kept && len(o.Body) <= OnceAnswer && s.onceKept.Add(int64(len(o.Body))) <= s.bounds.bytes {
		body = o.Body
	}
	return s.onOnce(ctx, "settle request", settleOnce, o, o.Status, o.Headers, body)
}

// DropOnce forgets a claimed request of which nothing was done, so that it may be sent again.
func (s *Store) DropOnce(ctx context.Context, o Once) error {
	return s.onOnce(ctx, "forget request", dropOnce, o)
}

func (s *Store) onOnce(ctx context.Context, label, sql string, o Once, values ...any) error {
	return s.file.Write(ctx, sqlite.Op{
		Label: label, Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			_, err := tx.Exec(sql, append(values, o.Scope, o.Key, o.UID)...)
			return during(label, err)
		},
		Done: func(*sqlite.Conn) (bool, error) { return false, nil }, // the same once more does no harm
	})
}

func errOnceFull(n int64) error {
	return &problem.Error{
		Kind: problem.Busy, Thing: "the Idempotency-Key", What: fmt.Sprintf("cannot be remembered, %d are", n),
		Fate: "nothing was done", Remedy: "wait until older ones are forgotten, after " + OnceFor.String() + " each, or send it without a key",
		Err: mark{ErrOnceFull},
	}
}

// ExpireOnce forgets requests whose time is over, and gives up the oldest answers while all together are too large. It works in
// steps, so that writers wait for one at most. n is how many were forgotten.
func (s *Store) ExpireOnce(ctx context.Context) (n int, err error) {
	due := false
	err = s.file.Read(ctx, func(c *sqlite.Conn) error { // mostly there is none, and then nothing is written
		due, err = exists(c, `SELECT 1 FROM idempotency WHERE expires_at <= ?`, time.Now().UnixMicro())
		return err
	})
	for gone := onceStep; due && gone == onceStep && err == nil; n += gone {
		gone, err = s.onceStep(ctx, `DELETE FROM idempotency WHERE (scope, key) IN
 (SELECT scope, key FROM idempotency INDEXED BY idempotency_expiry WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`, time.Now().UnixMicro())
	}
	if err != nil {
		return n, err
	}
	held, err := s.onceSize(ctx)
	for s.onceKept.Load() > s.bounds.bytes && held > s.bounds.bytes/2 && err == nil {
		if _, err = s.onceStep(ctx, `UPDATE idempotency SET response = NULL WHERE (scope, key) IN
 (SELECT scope, key FROM idempotency WHERE response IS NOT NULL AND created_at <= ? ORDER BY created_at LIMIT ?)`, time.Now().UnixMicro()); err == nil {
			held, err = s.onceSize(ctx)
		}
	}
	if err == nil {
		s.onceKept.Store(held)
	}
	return n, err
}

func (s *Store) onceStep(ctx context.Context, sql string, at int64) (n int, err error) {
	err = s.file.Write(ctx, sqlite.Op{
		Label: "forget requests", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			res, err := tx.Exec(sql, at, onceStep)
			n = int(res.Changes)
			return during("forget requests", err)
		},
		Done: func(*sqlite.Conn) (bool, error) { return false, nil },
	})
	return n, err
}

func (s *Store) onceSize(ctx context.Context) (n int64, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		_, err := c.Row(`SELECT coalesce(sum(octet_length(response)), 0) FROM idempotency`, nil, &n)
		return during("measure remembered answers", err)
	})
	return n, err
}
