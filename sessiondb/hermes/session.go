package hermes

import (
	"context"

	"gatewayd/internal/sqlite"
)

// Session is one row of sessions. Times are microseconds since 1970, 0 where there is none.
type Session struct {
	ID, Key, Source, Title, Model, Prompt, Parent, Cwd string
	OpenedAt, EndedAt, LastActive                      int64
	EndReason                                          string
	Hidden, Pinned, Archived, AutoArchived             bool
	Rewinds                                            int64
	Totals                                             Usage // for files that keep no usage per model
	Warnings                                           []Warning
}

// Usage is what one model at one provider cost. Input are the tokens that came from no cache.
type Usage struct {
	Model, Provider, Task                                  string
	Calls, Input, Output, CacheRead, CacheWrite, Reasoning int64
	FirstAt, LastAt                                        int64
}

func (u Usage) empty() bool {
	return u.Calls|u.Input|u.Output|u.CacheRead|u.CacheWrite|u.Reasoning == 0
}

var sessionColumns = []string{
	"id", "session_key", "source", "title", "model", "system_prompt", "system_prompt_hash", "parent_session_id", "cwd", "started_at", "ended_at",
	"last_activity_at", "end_reason", "hidden", "pinned", "archived", "auto_archived", "rewind_count", "billing_provider", "api_call_count",
	"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
}

// IDs gives every session, parents before their children; those that are their own ancestors come last.
func (s *Store) IDs(ctx context.Context) ([]string, error) {
	var ids []string
	parents := map[string]string{}
	err := s.file.Read(ctx, func(c *sqlite.Conn) error {
		ids = nil
		for r, err := range c.Query(`SELECT ` + s.cells("sessions", "s", "id", "parent_session_id") + ` FROM sessions s ORDER BY rowid`) {
			if err != nil {
				return err
			}
			ids = append(ids, r.Text(0))
			parents[r.Text(0)] = r.Text(1)
		}
		return nil
	})
	return parentsFirst(ids, parents), err
}

func parentsFirst(ids []string, parents map[string]string) []string {
	children := map[string][]string{}
	var ready, out []string
	for _, id := range ids {
		if parent := parents[id]; parent != "" && hasKey(parents, parent) {
			children[parent] = append(children[parent], id)
		} else {
			ready = append(ready, id)
		}
	}
	done := map[string]bool{}
	for len(ready) > 0 {
		id := ready[0]
		ready = append(ready[1:], children[id]...)
		if !done[id] {
			done[id] = true
			out = append(out, id)
		}
	}
	for _, id := range ids { // circles
		if !done[id] {
			done[id] = true
			out = append(out, id)
		}
	}
	return out
}

func hasKey(m map[string]string, key string) bool { _, ok := m[key]; return ok }

// Session reads one session; false when there is none.
func (s *Store) Session(ctx context.Context, id string) (out Session, found bool, err error) {
	query := `SELECT ` + s.cells("sessions", "s", sessionColumns...) + ` FROM sessions s WHERE s.id = ?`
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		for r, err := range c.Query(query, id) {
			if err != nil {
				return err
			}
			out, found = scanSession(&row{Row: r, names: sessionColumns, session: id}), true
		}
		if !found {
			return nil
		}
		return s.prompt(c, &out)
	})
	return out, found, err
}

func scanSession(r *row) Session {
	out := Session{
		ID: r.text("id"), Key: r.text("session_key"), Source: r.text("source"), Title: r.text("title"), Model: r.text("model"),
		Prompt: r.text("system_prompt"), Parent: r.text("parent_session_id"), Cwd: r.text("cwd"), EndReason: r.text("end_reason"),
		OpenedAt: r.micros("started_at"), EndedAt: r.micros("ended_at"), LastActive: r.micros("last_activity_at"),
		Hidden: r.flag("hidden", 0), Pinned: r.flag("pinned", 0), Archived: r.flag("archived", 0), AutoArchived: r.flag("auto_archived", 0),
		Rewinds: max(r.number("rewind_count", 0), 0),
		Totals: Usage{
			Calls: r.number("api_call_count", 0), Input: r.number("input_tokens", 0), Output: r.number("output_tokens", 0),
			CacheRead: r.number("cache_read_tokens", 0), CacheWrite: r.number("cache_write_tokens", 0), Reasoning: r.number("reasoning_tokens", 0),
			Provider: r.text("billing_provider"),
		},
	}
	if !r.Null(r.at("ended_at")) && out.EndedAt == 0 {
		out.EndedAt = max(out.LastActive, out.OpenedAt, 1) // it has ended, whenever that was
	}
	out.Totals.Model, out.Totals.FirstAt, out.Totals.LastAt = out.Model, out.OpenedAt, max(out.LastActive, out.EndedAt, out.OpenedAt)
	out.Warnings = r.warnings
	return out
}

// prompt finds the system prompt where the file keeps it under a hash.
func (s *Store) prompt(c *sqlite.Conn, out *Session) error {
	if out.Prompt != "" || !s.has("sessions", "system_prompt_hash") || !s.has("system_prompts", "prompt") {
		return nil
	}
	for r, err := range c.Query(`SELECT p.prompt FROM sessions s JOIN system_prompts p ON p.hash = s.system_prompt_hash WHERE s.id = ?`, out.ID) {
		if err != nil {
			return err
		}
		cells := &row{Row: r, names: []string{"system_prompt"}, session: out.ID}
		out.Prompt = cells.text("system_prompt")
		out.Warnings = append(out.Warnings, cells.warnings...)
	}
	return nil
}

var usageColumns = []string{
	"model", "billing_provider", "task", "api_call_count", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
	"reasoning_tokens", "first_seen", "last_seen",
}

// Usage gives what a session cost per model, provider and task; the totals of the session where the file keeps no more.
func (s *Store) Usage(ctx context.Context, of Session) (out []Usage, warnings []Warning, err error) {
	if s.has("session_model_usage", "session_id") {
		query := `SELECT ` + s.cells("session_model_usage", "u", usageColumns...) + ` FROM session_model_usage u WHERE u.session_id = ? ORDER BY u.rowid`
		err = s.file.Read(ctx, func(c *sqlite.Conn) error {
			out, warnings = nil, nil
			for r, err := range c.Query(query, of.ID) {
				if err != nil {
					return err
				}
				cells := &row{Row: r, names: usageColumns, session: of.ID}
				out = mergeUsage(out, scanUsage(cells))
				warnings = append(warnings, cells.warnings...)
			}
			return nil
		})
	}
	if err == nil && len(out) == 0 && !of.Totals.empty() {
		out = []Usage{of.Totals}
	}
	return out, warnings, err
}

func scanUsage(r *row) Usage {
	return Usage{
		Model: r.text("model"), Provider: r.text("billing_provider"), Task: r.text("task"), Calls: r.number("api_call_count", 0),
		Input: r.number("input_tokens", 0), Output: r.number("output_tokens", 0), CacheRead: r.number("cache_read_tokens", 0),
		CacheWrite: r.number("cache_write_tokens", 0), Reasoning: r.number("reasoning_tokens", 0),
		FirstAt: r.micros("first_seen"), LastAt: r.micros("last_seen"),
	}
}

// mergeUsage adds up what differs only in where and how it was billed.
func mergeUsage(list []Usage, u Usage) []Usage {
	for i := range list {
		have := &list[i]
		if have.Model != u.Model || have.Provider != u.Provider || have.Task != u.Task {
			continue
		}
		have.Calls, have.Input, have.Output = have.Calls+u.Calls, have.Input+u.Input, have.Output+u.Output
		have.CacheRead, have.CacheWrite, have.Reasoning = have.CacheRead+u.CacheRead, have.CacheWrite+u.CacheWrite, have.Reasoning+u.Reasoning
		have.LastAt = max(have.LastAt, u.LastAt)
		if have.FirstAt == 0 || (u.FirstAt != 0 && u.FirstAt < have.FirstAt) {
			have.FirstAt = u.FirstAt
		}
		return list
	}
	return append(list, u)
}
