package sessiondb

import (
	"context"
	"encoding/json"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// compactionWait is how long a compaction waits for another one of the same session: it will find the work done.
const compactionWait = 5 * time.Second

// AcquireCompaction takes the compaction lease of a session, waiting up to 5 s; ErrLeaseHeld after that. It says nothing
// about the turn lease: rows are appended beside a compaction. ttl <= 0 means DefaultLeaseTTL. Renew and Release serve
// both kinds.
func (s *Store) AcquireCompaction(ctx context.Context, session string, h Holder, ttl time.Duration) (Lease, error) {
	return s.acquire(ctx, session, Compacting, h, ttl, compactionWait)
}

// verifyCompaction proves inside the transaction that the session goes on and that this compaction is still the one.
// Unlike a turn's, a lease that ran out is not renewed: the summary was made too long ago to be trusted.
func verifyCompaction(tx *sqlite.Tx, l Lease) error {
	holds, expires, err := heldLease(tx, l, Compacting)
	switch {
	case err != nil:
		return err
	case mutation.On("compaction-without-lease"):
		return nil
	case !holds || !expires.After(time.Now()):
		return errLeaseLost(l)
	}
	return nil
}

// CompactionState is what a session's compactions have to know of those before, also after a restart: a summariser that
// keeps failing is left alone for a while, and a conversation that cannot be made smaller is not tried again and again.
type CompactionState struct {
	Failures  int            `json:"failures"`             // summaries that failed in a row
	Strikes   int            `json:"strikes"`              // compactions in a row that gained too little
	RetryAt   time.Time      `json:"retry_at,omitzero"`    // none by itself before this; zero: at once
	LastError string         `json:"last_error,omitempty"` // of the last failure, for people
	Exchanges map[string]int `json:"exchanges,omitempty"`  // failures by the uid with which an exchange begins
	UpdatedAt time.Time      `json:"updated_at,omitzero"`  // set by the store
}

// CompactionState reads it; the zero value when there never was any.
func (s *Store) CompactionState(ctx context.Context, session string) (st CompactionState, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		for r, err := range c.Query(`SELECT failures, strikes, retry_at, last_error, exchanges, updated_at FROM compactions WHERE session_id = ?`, session) {
			if err != nil {
				return err
			}
			st = CompactionState{Failures: int(r.Int(0)), Strikes: int(r.Int(1)), LastError: r.Text(3), UpdatedAt: moment(r.Int(5))}
			if !r.Null(2) {
				st.RetryAt = moment(r.Int(2))
			}
			return json.Unmarshal([]byte(r.Text(4)), &st.Exchanges)
		}
		return nil
	})
	return st, err
}

const keepCompactionState = `INSERT OR REPLACE INTO compactions(session_id, failures, strikes, retry_at, last_error, exchanges, updated_at)
 VALUES(?, ?, ?, ?, ?, ?, ?)`

// SetCompactionState replaces it. Only the holder of the compaction lease may: ErrLeaseLost.
func (s *Store) SetCompactionState(ctx context.Context, l Lease, st CompactionState) error {
	var retry any
	if !st.RetryAt.IsZero() {
		retry = st.RetryAt.UnixMicro()
	}
	if st.Exchanges == nil {
		st.Exchanges = map[string]int{}
	}
	exchanges, _ := json.Marshal(st.Exchanges) // strings and numbers always marshal
	now := time.Now().UnixMicro()
	return s.file.Write(ctx, sqlite.Op{
		Label: "keep compaction state", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			if held, err := holds(tx.Conn, l); err != nil || !held || l.Kind != Compacting {
				return firstError(err, errLeaseLost(l))
			}
			_, err := tx.Exec(keepCompactionState, l.Session, st.Failures, st.Strikes, retry, st.LastError, string(exchanges), now)
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM compactions WHERE session_id = ? AND updated_at = ?`, l.Session, now)
		},
	})
}

// Absorbed gives the uids of the rows for which a summary, or a copy of one, stands; none when it is no summary.
func (s *Store) Absorbed(ctx context.Context, m Message) (uids []string, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		var list string
		found, err := c.Row(`SELECT absorbed FROM folds WHERE summary = ? AND session_id = ?`, []any{m.OriginID, m.SessionID}, &list)
		if err != nil || !found {
			return err
		}
		return json.Unmarshal([]byte(list), &uids)
	})
	return uids, err
}
