package sessiondb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"gatewayd/internal/sqlite"
)

// taking is the second pass over a file: each session is compared with what is here, and what is missing is stored.
type taking struct {
	path   string
	file   *os.File
	limits *fileLimits
	uids   map[string][]string // by session, from the first pass

	c   *sqlite.Conn // nil: an empty store
	tx  *sqlite.Tx   // nil: a dry run
	out Moved
	now int64

	at               *takenSession
	parents          []sessionLine // of new sessions that have one
	lastUID, lastNew string        // for a commit of unknown fate
}

// takenSession is the session that the lines belong to.
type takenSession struct {
	line    sessionLine
	o       Outcome
	isNew   bool
	refused string           // why nothing of it is taken
	here    []hereRow        // rows that are here already; those of the file must begin with them
	seen    int              // of these
	ids     map[string]int64 // of first rows, by uid
	rowIDs  map[string]int64
	lastAt  int64
	preview string
}

type hereRow struct {
	uid, role         string
	id                int64
	active, compacted bool
}

// all is one whole pass. It may be run again, so it begins with nothing.
func (t *taking) all(ctx context.Context, c *sqlite.Conn, tx *sqlite.Tx) error {
	t.c, t.tx, t.at, t.parents, t.lastUID, t.lastNew = c, tx, nil, nil, "", ""
	t.out, t.now = Moved{Source: t.path, Sessions: []Outcome{}}, time.Now().UnixMicro()
	if _, err := t.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read file again: %w", err)
	}
	in := newFileReader(t.path, t.file, t.limits)
	for {
		l, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = t.take(l)
		}
		if err = firstError(err, ctx.Err()); err != nil {
			return err
		}
	}
	if err := t.endSession(); err != nil {
		return err
	}
	return t.adopt()
}

func (t *taking) take(l fileLine) error {
	switch {
	case l.Prompt != nil:
		return t.prompt(*l.Prompt)
	case l.Session != nil:
		if err := t.endSession(); err != nil {
			return err
		}
		return t.beginSession(*l.Session)
	case l.Message != nil:
		return t.message(*l.Message)
	case l.Usage != nil && t.at.isNew:
		return t.usage(*l.Usage)
	case l.Fold != nil && t.at.refused == "":
		return t.fold(*l.Fold)
	}
	return nil
}

func (t *taking) exec(sql string, args ...any) error {
	if t.tx == nil {
		return nil
	}
	_, err := t.tx.Exec(sql, args...)
	return err
}

func (t *taking) exists(sql string, args ...any) (bool, error) {
	if t.c == nil {
		return false, nil
	}
	return exists(t.c, sql, args...)
}

func (t *taking) prompt(p promptLine) error {
	return t.exec(`INSERT OR IGNORE INTO prompts(hash, body, created_at) VALUES(?, ?, ?)`, p.Hash, p.Body, t.now)
}

// beginSession decides what becomes of a session before the first of its rows.
func (t *taking) beginSession(l sessionLine) error {
	if l.OpenedAt == 0 {
		l.OpenedAt = 1
	}
	s := &takenSession{line: l, o: Outcome{Session: l.ID}, ids: map[string]int64{}, rowIDs: map[string]int64{}, lastAt: l.OpenedAt}
	t.at = s
	for _, uid := range t.uids[l.ID] {
		if other, err := t.exists(`SELECT 1 FROM messages WHERE uid = ? AND session_id <> ?`, uid, l.ID); err != nil {
			return err
		} else if other {
			s.refused = "a row of it is here in another session"
			return nil
		}
	}
	found, err := t.exists(`SELECT 1 FROM sessions WHERE id = ?`, l.ID)
	if err != nil {
		return err
	}
	if found {
		return t.meet(s)
	}
	s.isNew, s.o.New, t.lastNew = true, true, l.ID
	if l.Parent != "" {
		t.parents = append(t.parents, l)
	}
	return t.exec(`INSERT INTO sessions(id, key, source, title, model, prompt_hash, cwd, opened_at, ended_at, end_reason, hidden, archived, pinned, rewind_count,
 last_active, preview) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, l.ID, null(l.Key), l.Source, l.Title, l.Model, null(l.Prompt), l.Cwd, l.OpenedAt,
		nullInt(l.EndedAt), null(l.EndReason), l.Hidden, l.Archived, l.Pinned, l.Rewinds, max(l.LastActive, l.OpenedAt), l.Preview)
}

func nullInt(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// meet reads what is here of a session.
func (t *taking) meet(s *takenSession) error {
	for r, err := range t.c.Query(`SELECT uid, role, id, active, compacted FROM messages WHERE session_id = ? ORDER BY id`, s.line.ID) {
		if err != nil {
			return err
		}
		s.here = append(s.here, hereRow{r.Text(0), r.Text(1), r.Int(2), r.Bool(3), r.Bool(4)})
	}
	return nil
}

func (t *taking) message(m messageLine) error {
	s := t.at
	if s.refused == "" && s.seen < len(s.here) {
		return t.compare(s, m)
	}
	if s.refused == "" && !s.isNew && s.o.Added == 0 {
		if err := t.mayContinue(s); err != nil {
			return err
		}
	}
	if s.refused != "" {
		s.o.skip(1, "%s", s.refused)
		return nil
	}
	return t.insert(s, m)
}

// compare holds a row of the file against the next one here.
func (t *taking) compare(s *takenSession, m messageLine) error {
	have := s.here[s.seen]
	if have.uid != m.UID || have.role != m.Role || have.active != m.Active || have.compacted != m.Compacted {
		s.refused = "it went another way here"
		return t.message(m)
	}
	s.seen++
	s.o.Present++
	s.rowIDs[m.UID] = have.id
	if m.Origin == "" {
		s.ids[m.UID] = have.id
	}
	return nil
}

func (t *taking) mayContinue(s *takenSession) error {
	held, err := heldBy(t.c, s.line.ID)
	if held != "" {
		s.refused = "a turn runs in it here (" + held + ")"
	}
	return err
}

func (t *taking) insert(s *takenSession, m messageLine) error {
	if m.CreatedAt == 0 {
		m.CreatedAt = s.lastAt
	}
	s.lastAt = m.CreatedAt
	s.o.Added++
	if s.preview == "" && m.Role == "user" {
		s.preview = previewOf(m.Content)
	}
	if t.tx == nil {
		return nil
	}
	id, err := lastMessageID(t.c)
	if err != nil {
		return err
	}
	id++
	origin := id
	if m.Origin != "" {
		origin = s.ids[m.Origin]
	} else {
		s.ids[m.UID] = id
	}
	s.rowIDs[m.UID], t.lastUID = id, m.UID
	return t.exec(`INSERT INTO messages(`+messageColumns+`, session_id) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, m.UID, null(m.Turn), origin, m.Role, m.Content, null(m.Wire), null(m.ToolCalls), null(m.ToolCallID), null(m.ToolName), null(m.Effect),
		null(m.FinishReason), null(m.Reasoning), null(m.Kind), m.Active, m.Compacted, m.CreatedAt, s.line.ID)
}

func (t *taking) usage(u usageLine) error {
	first := max(u.FirstAt, 1)
	return t.exec(`INSERT OR IGNORE INTO usage(session_id, model, provider, task, calls, prompt, completion, cached, cache_write, reasoning, last_ref, first_at, last_at)
 VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, t.at.line.ID, u.Model, u.Provider, u.Task, u.Calls, u.Prompt, u.Completion, u.Cached, u.CacheWrite,
		u.Reasoning, u.LastRef, first, max(u.LastAt, first))
}

func (t *taking) fold(l foldLine) error {
	list, _ := json.Marshal(l.Absorbed) // strings always marshal
	at := l.CreatedAt
	if at == 0 {
		at = 1
	}
	return t.exec(`INSERT OR IGNORE INTO folds(summary, session_id, absorbed, created_at) VALUES(?, ?, ?, ?)`,
		t.at.rowIDs[l.Summary], t.at.line.ID, string(list), at)
}

func (t *taking) endSession() error {
	s := t.at
	if s == nil {
		return nil
	}
	t.at = nil
	t.out.add(s.o)
	if t.tx == nil || s.o.Added == 0 {
		return nil
	}
	if !s.isNew || s.line.LastActive == 0 {
		if err := t.exec(importCounts, s.line.ID, s.lastAt, s.preview); err != nil {
			return err
		}
	}
	return recount(t.tx, s.line.ID)
}

// adopt gives the new sessions their parents, now that all of them are there.
func (t *taking) adopt() error {
	for _, l := range t.parents {
		if t.tx == nil {
			return nil
		}
		found, err := t.exists(`SELECT 1 FROM sessions WHERE id = ?`, l.Parent)
		if err != nil {
			return err
		}
		circle, err := t.exists(`WITH RECURSIVE up(id) AS (VALUES(?1) UNION SELECT s.parent FROM up JOIN sessions s ON s.id = up.id WHERE s.parent IS NOT NULL)
 SELECT 1 FROM up WHERE id = ?2`, l.Parent, l.ID)
		if err != nil {
			return err
		}
		if !found || circle {
			t.out.note("session %s: its parent %s is not there, or is its descendant; it stands for itself now", l.ID, l.Parent)
			continue
		}
		if err := t.exec(`UPDATE sessions SET parent = ? WHERE id = ?`, l.Parent, l.ID); err != nil {
			return err
		}
	}
	return nil
}
