package sessiondb

import (
	"context"
	"errors"
	"sync"
	"time"

	"gatewayd/internal/sqlite"
)

// spoolPatience bounds the wait for the spool's lock, for a caller whose own context has ended already or ends late.
const spoolPatience = 10 * time.Second

// diverts says whether rows that a write refused go to the spool: exactly while the handle is in quarantine. A full or
// read-only disk is not such a case: the spool lies beside the database, so nothing could be kept there either, and the
// next write works when there is space again. What the store's own rules refuse (a lost lease, an ended session) is
// nothing to keep for later.
func (s *Store) diverts(err error) bool {
	if s.readOnly != nil || s.file.Quarantine() == nil {
		return false
	}
	for _, rule := range []error{ErrLeaseLost, ErrSessionMissing, ErrSessionEnded, ErrRowChanged} {
		if errors.Is(err, rule) {
			return false
		}
	}
	switch sqlite.ClassOf(err) {
	case sqlite.Interrupted, sqlite.Closed, sqlite.Constraint:
		return false
	}
	return true
}

// divert keeps a batch that the quarantined store did not take, and gives the error that says so. A batch whose commit
// has an unknown fate is kept too: it comes back by its uids, once.
func (s *Store) divert(ctx context.Context, l Lease, batch []NewMessage, cause error) error {
	session, opened := s.whatIsKnown(l.Session)
	err := s.spool.keep(ctx, l, &spooled{Session: session, Opened: opened, Rows: spoolRows(batch)}, cause)
	if err != nil && !errors.Is(err, ErrSpooled) {
		s.log.Error("rows could neither be stored nor spooled", "session", l.Session, "rows", len(batch), "path", s.spool.Dir(), "error", err)
		return err
	}
	s.log.Error("rows spooled, the store does not take them", "session", l.Session, "rows", len(batch), "path", s.spool.Dir(), "error", cause)
	return err
}

// whatIsKnown is what a session needs to be made anew: as the damaged store still tells it, or as this process saw it
// last.
func (s *Store) whatIsKnown(id string) (spooledSession, time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), spoolPatience)
	defer cancel()
	if n, opened, ok := s.seen.get(id); ok {
		return spooledSession(n), opened
	}
	row, err := s.Session(ctx, id)
	if err != nil {
		return spooledSession{ID: id}, time.Time{}
	}
	prompt, _ := s.Prompt(ctx, row.PromptHash)
	n := row.asNew()
	n.Prompt = prompt
	return spooledSession(n), row.OpenedAt
}

// asNew is what would make the session again, but for its prompt.
func (row Session) asNew() NewSession {
	return NewSession{
		ID: row.ID, Key: row.Key, Source: row.Source, Title: row.Title, Model: row.Model, Parent: row.Parent, Cwd: row.Cwd, Hidden: row.Hidden,
	}
}

// seenMost bounds what is remembered: more conversations than this at once are not had by one process.
const seenMost = 1024

// seenSessions remembers the sessions that this process made, with their prompts: a store that is damaged a moment later
// may not tell them any more.
type seenSessions struct {
	mu   sync.Mutex
	made map[string]seenSession
}

type seenSession struct {
	NewSession
	opened time.Time
}

func (m *seenSessions) put(n NewSession, row Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made == nil || len(m.made) >= seenMost {
		m.made = map[string]seenSession{}
	}
	made := row.asNew()
	made.Prompt = n.Prompt
	m.made[row.ID] = seenSession{made, row.OpenedAt}
}

func (m *seenSessions) get(id string) (NewSession, time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one, ok := m.made[id]
	return one.NewSession, one.opened, ok
}
