package sessiondb

import (
	"context"
	"time"

	"gatewayd/internal/sqlite"
)

// Counts are tokens and calls as the provider reported them. Cached is the part of Prompt that was read from a cache.
type Counts struct {
	Calls      int64 `json:"calls"`
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Reasoning  int64 `json:"reasoning_tokens"`
}

// UsageDelta is what one response cost. Task is "" for the turn itself, else the name of the side job ("compaction").
type UsageDelta struct {
	Session, Model, Provider, Task string
	Counts
	Request *Asked // the request that was answered, when it is the session's last; nil leaves that as it is
}

// ModelUsage is the sum of one model at one provider for one task.
type ModelUsage struct {
	Model    string `json:"model"`
	Provider string `json:"provider"`
	Task     string `json:"task,omitempty"`
	Counts
	LastAt time.Time `json:"last_at"`
}

// Usage is what a session cost. Models are the most recently used first.
type Usage struct {
	Total  Counts       `json:"total"`
	Models []ModelUsage `json:"models"`
}

const addUsage = `INSERT INTO usage(session_id, model, provider, task, calls, prompt, completion, cached, cache_write, reasoning, last_ref, first_at, last_at)
 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)
 ON CONFLICT(session_id, model, provider, task) DO UPDATE SET calls = calls + ?5, prompt = prompt + ?6, completion = completion + ?7,
 cached = cached + ?8, cache_write = cache_write + ?9, reasoning = reasoning + ?10, last_ref = ?11, last_at = ?12`

// usageAt is when a response counts as used: now, and later than all before it in the session. Two of one microsecond, or
// a clock that was set back, leave no doubt which model was the last.
const usageAt = `SELECT max(?2, coalesce((SELECT max(last_at) + 1 FROM usage WHERE session_id = ?1 AND last_at BETWEEN 1 AND ?3 - 1), 0))`

// AddUsage adds one response to the sums, exactly once. A delta without Calls counts as one call. For a response whose row is about
// to be stored there is NewMessage.Spent.
func (s *Store) AddUsage(ctx context.Context, d UsageDelta) error {
	now := time.Now()
	ref := newUID(now)
	return s.file.Write(ctx, sqlite.Op{
		Label: "add usage", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			if found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, d.Session); err != nil || !found {
				return firstError(err, errSessionMissing(d.Session))
			}
			return spend(tx, d, ref, now)
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM usage WHERE session_id = ? AND model = ? AND provider = ? AND task = ? AND last_ref = ?`,
				d.Session, d.Model, d.Provider, d.Task, ref)
		},
	})
}

// spend adds a response of a session that is there to its sums. ref is new for each.
func spend(tx *sqlite.Tx, d UsageDelta, ref string, now time.Time) error {
	at := now.UnixMicro()
	if _, err := tx.Row(usageAt, []any{d.Session, at, maxStamp}, &at); err != nil {
		return during("add usage", err)
	}
	_, err := tx.Exec(addUsage, d.Session, d.Model, d.Provider, d.Task, max(d.Calls, 1), d.Prompt, d.Completion, d.Cached, d.CacheWrite, d.Reasoning,
		ref, at)
	if err != nil || d.Request == nil {
		return during("add usage", err)
	}
	return noteRequest(tx, *d.Request, at)
}

// Usage reads the sums of a session.
func (s *Store) Usage(ctx context.Context, session string) (Usage, error) {
	var out Usage
	err := s.file.Read(ctx, func(c *sqlite.Conn) error {
		out = Usage{}
		for r, err := range c.Query(`SELECT model, provider, task, calls, prompt, completion, cached, cache_write, reasoning, last_at
 FROM usage WHERE session_id = ? ORDER BY last_at DESC, last_ref DESC`, session) {
			if err != nil {
				return err
			}
			n := Counts{Calls: r.Int(3), Prompt: r.Int(4), Completion: r.Int(5), Cached: r.Int(6), CacheWrite: r.Int(7), Reasoning: r.Int(8)}
			out.Models = append(out.Models, ModelUsage{Model: r.Text(0), Provider: r.Text(1), Task: r.Text(2), Counts: n, LastAt: moment(r.Int(9))})
			out.Total = out.Total.plus(n)
		}
		return nil
	})
	return out, err
}

func (c Counts) plus(d Counts) Counts {
	return Counts{
		Calls: c.Calls + d.Calls, Prompt: c.Prompt + d.Prompt, Completion: c.Completion + d.Completion,
		Cached: c.Cached + d.Cached, CacheWrite: c.CacheWrite + d.CacheWrite, Reasoning: c.Reasoning + d.Reasoning,
	}
}
