package sessiondb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// ExportOptions choose what is exported.
type ExportOptions struct {
	Sessions    []string // in this order; empty: all, by id
	Lineage     bool     // also the segments before and after each that compression made of one conversation
	MaxMessages int      // of one session; 0: 20,000, negative: no limit
}

// Exported says what was written.
type Exported struct {
	Sessions int64 `json:"sessions"`
	Messages int64 `json:"messages"`
}

const (
	defaultExportMessages = 20_000
	maxLineage            = 1000 // segments of one conversation
)

// exporter is one run of Export.
type exporter struct {
	s       *Store
	w       io.Writer
	o       ExportOptions
	out     Exported
	prompts map[string]bool // written already
}

// Export writes sessions to w as JSON lines, the format that Import reads (see format.go). Each session is of one moment, and
// one session at a time is held in memory. The same conversations give the same bytes, in whatever store they lie. A
// session that is deleted while all are exported is left out; one that was asked for by name is then a NotFound problem.
func Export(ctx context.Context, s *Store, w io.Writer, o ExportOptions) (Exported, error) {
	if o.MaxMessages == 0 {
		o.MaxMessages = defaultExportMessages
	}
	e := &exporter{s: s, w: w, o: o, prompts: map[string]bool{}}
	ids, err := e.ids(ctx)
	if err != nil {
		return e.out, err
	}
	if err := e.line(fileLine{Header: &headerLine{formatName, formatVersion}}); err != nil {
		return e.out, err
	}
	for _, id := range ids {
		if err := e.session(ctx, id); err != nil {
			return e.out, err
		}
	}
	return e.out, e.line(fileLine{End: &endLine{e.out.Sessions, e.out.Messages}})
}

func (e *exporter) line(l fileLine) error {
	var b bytes.Buffer
	encode(&b, l)
	return e.write(&b)
}

func (e *exporter) write(b *bytes.Buffer) error {
	if _, err := e.w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

func (e *exporter) ids(ctx context.Context) (ids []string, err error) {
	err = e.s.file.Read(ctx, func(c *sqlite.Conn) error {
		ids = nil
		if len(e.o.Sessions) == 0 {
			ids, err = texts(c, `SELECT id FROM sessions WHERE end_reason IS NOT ? ORDER BY id`, EndDeleted)
			return err
		}
		for _, id := range e.o.Sessions {
			if found, err := exists(c, `SELECT 1 FROM sessions WHERE id = ?`, id); err != nil || !found {
				return firstError(err, errSessionMissing(id))
			}
			segments := []string{id}
			if e.o.Lineage {
				if segments, err = lineage(c, id); err != nil {
					return err
				}
			}
			for _, one := range segments {
				if !slices.Contains(ids, one) {
					ids = append(ids, one)
				}
			}
		}
		return nil
	})
	return ids, err
}

// lineage gives the segments of one conversation, the first one first.
func lineage(c *sqlite.Conn, id string) ([]string, error) {
	list := []string{id}
	for len(list) < maxLineage {
		up, err := texts(c, `SELECT p.id FROM sessions s JOIN sessions p ON p.id = s.parent WHERE s.id = ? AND p.end_reason = ?`, list[0], EndCompression)
		if err != nil {
			return nil, err
		}
		if len(up) == 0 || slices.Contains(list, up[0]) {
			break
		}
		list = slices.Insert(list, 0, up[0])
	}
	for i := slices.Index(list, id); i < len(list) && len(list) < maxLineage; i++ {
		down, err := texts(c, `SELECT s.id FROM sessions s JOIN sessions p ON p.id = s.parent WHERE p.id = ? AND p.end_reason = ? ORDER BY s.id`, list[i], EndCompression)
		if err != nil {
			return nil, err
		}
		for _, one := range down {
			if !slices.Contains(list, one) {
				list = append(list, one)
			}
		}
	}
	return list, nil
}

func texts(c *sqlite.Conn, query string, args ...any) (out []string, err error) {
	for r, err := range c.Query(query, args...) {
		if err != nil {
			return nil, err
		}
		out = append(out, r.Text(0))
	}
	return out, nil
}

// session writes one session, read in one snapshot.
func (e *exporter) session(ctx context.Context, id string) error {
	var lines bytes.Buffer
	var messages int64
	var hash, prompt string
	err := e.s.file.Read(ctx, func(c *sqlite.Conn) error {
		lines.Reset()
		line, found, err := e.sessionLine(c, id)
		if err != nil || !found {
			return firstError(err, errSessionMissing(id))
		}
		if hash = line.Prompt; hash != "" {
			if _, err := c.Row(`SELECT body FROM prompts WHERE hash = ?`, []any{hash}, &prompt); err != nil {
				return err
			}
		}
		encode(&lines, fileLine{Session: &line})
		if err := e.usage(c, id, &lines); err != nil {
			return err
		}
		messages, err = e.messages(c, id, &lines)
		return err
	})
	if problem.Is(err, problem.NotFound) && len(e.o.Sessions) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if hash != "" && !e.prompts[hash] {
		e.prompts[hash] = true
		if err := e.line(fileLine{Prompt: &promptLine{hash, prompt}}); err != nil {
			return err
		}
	}
	e.out.Sessions++
	e.out.Messages += messages
	return e.write(&lines)
}

func (e *exporter) sessionLine(c *sqlite.Conn, id string) (l sessionLine, found bool, err error) {
	for r, err := range c.Query(`SELECT id, key, source, title, model, prompt_hash, parent, cwd, opened_at, ended_at, end_reason, hidden, archived, pinned,
 rewind_count, last_active, preview FROM sessions WHERE id = ?`, id) {
		if err != nil {
			return l, false, err
		}
		return sessionLine{
			ID: r.Text(0), Key: r.Text(1), Source: r.Text(2), Title: r.Text(3), Model: r.Text(4), Prompt: r.Text(5), Parent: r.Text(6), Cwd: r.Text(7),
			OpenedAt: e.time(id, 0, r.Int(8)), EndedAt: e.time(id, 0, r.Int(9)), EndReason: r.Text(10), Hidden: r.Bool(11), Archived: r.Int(12), Pinned: r.Bool(13),
			Rewinds: r.Int(14), LastActive: e.time(id, 0, r.Int(15)), Preview: r.Text(16),
		}, true, nil
	}
	return l, false, nil
}

// time leaves out what no clock showed.
func (e *exporter) time(session string, row, us int64) int64 {
	if us != 0 && !sane(us) {
		e.s.once.warn("a time that is none was left out of the export", session, "session", session, "message", row, "stored", us)
		return 0
	}
	return us
}

func (e *exporter) usage(c *sqlite.Conn, id string, to *bytes.Buffer) error {
	for r, err := range c.Query(`SELECT model, provider, task, calls, prompt, completion, cached, cache_write, reasoning, last_ref, first_at, last_at
 FROM usage WHERE session_id = ? ORDER BY model, provider, task`, id) {
		if err != nil {
			return err
		}
		encode(to, fileLine{Usage: &usageLine{
			Model: r.Text(0), Provider: r.Text(1), Task: r.Text(2), Calls: r.Int(3), Prompt: r.Int(4), Completion: r.Int(5), Cached: r.Int(6),
			CacheWrite: r.Int(7), Reasoning: r.Int(8), LastRef: r.Text(9), FirstAt: e.time(id, 0, r.Int(10)), LastAt: e.time(id, 0, r.Int(11)),
		}})
	}
	return nil
}

const exportRows = `SELECT ` + messageColumns + ` FROM messages WHERE session_id = ? ORDER BY id`

func (e *exporter) messages(c *sqlite.Conn, id string, to *bytes.Buffer) (n int64, err error) {
	firsts := map[int64]string{} // uid of the first row of each message, by its id
	for r, err := range c.Query(exportRows, id) {
		if err != nil {
			return n, err
		}
		if n++; e.o.MaxMessages > 0 && n > int64(e.o.MaxMessages) {
			return n, &problem.Error{
				Kind: problem.Invalid, Thing: sessionThing(id), What: fmt.Sprintf("has more than %d messages", e.o.MaxMessages), Fate: "the export is not whole",
				Remedy: "allow more with --max-messages N, or any number with --max-messages 0",
			}
		}
		row, uid, origin := e.messageLine(r, id), r.Text(1), r.Int(3)
		if first, ok := firsts[origin]; ok {
			row.Origin = first
		} else {
			firsts[origin] = uid
		}
		encode(to, fileLine{Message: &row})
	}
	return n, e.folds(c, id, to)
}

func (e *exporter) messageLine(r *sqlite.Row, session string) messageLine {
	return messageLine{
		UID: r.Text(1), Turn: r.Text(2), Role: r.Text(4), Content: r.Text(5), Wire: r.Text(6), ToolCalls: r.Text(7), ToolCallID: r.Text(8), ToolName: r.Text(9),
		Effect: r.Text(10), FinishReason: r.Text(11), Reasoning: r.Text(12), Kind: r.Text(13), Active: r.Bool(14), Compacted: r.Bool(15),
		CreatedAt: e.time(session, r.Int(0), r.Int(16)),
	}
}

func (e *exporter) folds(c *sqlite.Conn, id string, to *bytes.Buffer) error {
	for r, err := range c.Query(`SELECT m.uid, f.absorbed, f.created_at FROM folds f JOIN messages m ON m.id = f.summary WHERE f.session_id = ? ORDER BY f.summary`, id) {
		if err != nil {
			return err
		}
		var absorbed []string
		if err := json.Unmarshal([]byte(r.Text(1)), &absorbed); err != nil {
			e.s.once.warn("what a summary stands for cannot be read and was left out of the export", r.Text(0), "session", id, "error", err)
			continue
		}
		encode(to, fileLine{Fold: &foldLine{Summary: r.Text(0), Absorbed: absorbed, CreatedAt: e.time(id, 0, r.Int(2))}})
	}
	return nil
}
