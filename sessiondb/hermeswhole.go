package sessiondb

import (
	"context"

	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb/hermes"
)

// importedRef marks sums that came with an import: the next import may set them again, unless a turn here added to them.
const importedRef = derivedPrefix + "import"

const sameUsage = `SELECT 1 FROM usage WHERE session_id = ? AND model = ? AND provider = ? AND task = ? AND
 (last_ref <> ? OR (calls, prompt, completion, cached, cache_write, reasoning) = (?, ?, ?, ?, ?, ?))`

const setUsage = `INSERT INTO usage(session_id, model, provider, task, last_ref, calls, prompt, completion, cached, cache_write, reasoning, first_at, last_at)
 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
 ON CONFLICT(session_id, model, provider, task) DO UPDATE SET calls = ?6, prompt = ?7, completion = ?8, cached = ?9, cache_write = ?10,
 reasoning = ?11, last_at = ?13 WHERE last_ref = ?5`

// usageKey and the sums after it are the arguments of both statements. Our prompt tokens include those from a cache.
func (m *movingSession) usageArgs(u hermes.Usage) []any {
	return []any{m.session.ID, u.Model, u.Provider, u.Task, importedRef, u.Calls, u.Input + u.CacheRead, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning}
}

// due says by reads alone whether anything of the session as a whole is to be written.
func (m *movingSession) due(ctx context.Context, usage []hermes.Usage) (due bool, err error) {
	err = m.s.file.Read(ctx, func(c *sqlite.Conn) error {
		due, err = m.dueIn(c, usage)
		return err
	})
	return due, err
}

func (m *movingSession) dueIn(c *sqlite.Conn, usage []hermes.Usage) (bool, error) {
	for _, u := range usage {
		if same, err := exists(c, sameUsage, m.usageArgs(u)...); err != nil || !same {
			return true, err
		}
	}
	return exists(c, `SELECT 1 FROM sessions WHERE id = ?1 AND ((ended_at IS NULL AND ?2 > 0) OR (title = '' AND ?3 <> ''))`,
		m.session.ID, m.session.EndedAt, m.session.Title)
}

// wholeIn writes sums that nobody here added to, an end where there is none (the first stamp wins), a title where there is none.
func (m *movingSession) wholeIn(tx *sqlite.Tx, usage []hermes.Usage) error {
	if err := m.claim(tx); err != nil {
		return err
	}
	for _, u := range usage {
		first := max(u.FirstAt, 1)
		if u.FirstAt == 0 {
			first = max(m.session.OpenedAt, 1)
		}
		if _, err := tx.Exec(setUsage, append(m.usageArgs(u), first, max(u.LastAt, first))...); err != nil {
			return err
		}
	}
	if m.session.EndedAt > 0 {
		if _, err := tx.Exec(`UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL`,
			m.session.EndedAt, endReason(m.session), m.session.ID); err != nil {
			return err
		}
	}
	_, err := tx.Exec(`UPDATE sessions SET title = ? WHERE id = ? AND title = ''`, m.session.Title, m.session.ID)
	return err
}

// noteParent says when a session lost its parent on the way.
func (m *movingSession) noteParent(ctx context.Context) {
	if !m.o.New || m.session.Parent == "" || m.s == nil || m.opts.DryRun {
		return
	}
	got, err := m.s.Session(ctx, m.session.ID)
	if err == nil && got.Parent == "" {
		m.out.note("session %s: its parent %s is not there, or is its descendant; it stands for itself now", m.session.ID, m.session.Parent)
	}
}
