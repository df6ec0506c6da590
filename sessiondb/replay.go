package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// Bounds of one transaction of a replay.
const (
	replayBatch = 64      // records
	replayBytes = 4 << 20 // of their text
)

// Replayed says what became of a spool.
type Replayed struct {
	Stored  int           `json:"stored"`  // rows that are in the store now
	Already int           `json:"already"` // rows that were in it
	Waiting int           `json:"waiting"` // rows of conversations that somebody holds; they stay in the spool
	Kept    []KeptSpooled `json:"kept,omitempty"`
}

// KeptSpooled is a batch that cannot be stored. It stays in the spool's kept.jsonl, with its reason.
type KeptSpooled struct {
	Session string `json:"session,omitempty"`
	Rows    int    `json:"rows"`
	Reason  string `json:"reason"`
}

func (r Replayed) anything() bool { return r.Stored+r.Already+r.Waiting+len(r.Kept) > 0 }

// Replay stores what lies in the spool, in the order it was put there, each row exactly once by its uid. A file of the
// spool is removed only when everything in it is durable in the store or in kept.jsonl, so a replay that is killed is
// simply begun again. Of several processes that replay at once one does it, and the others find nothing left. kept tries
// those again that an earlier replay could not store.
//
// A session that is gone is made anew from what the spool knows of it. One that has ended takes no rows: they are kept. One
// whose turn lease somebody else holds now takes them later.
func (s *Store) Replay(ctx context.Context, kept bool) (Replayed, error) {
	var out Replayed
	if err := s.Writable(); err != nil {
		return out, err
	}
	files, err := s.spool.list()
	if err != nil || len(files) == 0 {
		return out, err
	}
	s.replays.Add(1)
	defer s.replays.Add(-1)
	unlock, err := s.spool.lock(ctx, replayLock)
	if err != nil {
		return out, err
	}
	defer unlock()
	if kept {
		if _, err := s.spool.seal(ctx, spoolKept); err != nil {
			return out, err
		}
	}
	if _, err := s.spool.seal(ctx, spoolOpen); err != nil {
		return out, err
	}
	if files, err = s.spool.list(); err != nil {
		return out, err
	}
	r := &replay{s: s, out: &out, held: map[string]bool{}, cached: map[string]bool{}}
	for _, f := range files {
		if !strings.HasPrefix(f.name, spoolSealed) {
			continue
		}
		if err := r.file(ctx, f.name); err != nil {
			return out, fmt.Errorf("replay %s: %w", s.spool.file(f.name), err)
		}
	}
	s.tellReplayed(out)
	return out, nil
}

func (s *Store) tellReplayed(out Replayed) {
	if !out.anything() {
		return
	}
	s.log.Warn("spooled rows replayed", "path", s.spool.Dir(), "stored", out.Stored, "already", out.Already, "waiting", out.Waiting, "kept", len(out.Kept))
	for _, k := range out.Kept {
		s.log.Error("spooled rows kept", "path", s.spool.file(spoolKept), "session", k.Session, "rows", k.Rows, "reason", k.Reason)
	}
}

// recallFirst replays what came into the spool, before a turn goes on or begins in a store that takes rows again: what
// was said first is stored first. Without a spool it costs one look at a name. Its trouble is logged, not answered: the
// caller's own write says what is wrong with the store.
func (s *Store) recallFirst(ctx context.Context) {
	if s.replays.Load() == 0 && !s.spool.waiting() || s.Writable() != nil {
		return
	}
	if _, err := s.Replay(ctx, false); err != nil {
		s.once.warn("spool not replayed", err.Error(), "path", s.spool.Dir(), "error", err)
	}
}

// recallAll is recallFirst for a turn that begins: it also tries again what had to wait for somebody's turn.
func (s *Store) recallAll(ctx context.Context) {
	files, err := s.spool.list()
	if err != nil || s.Writable() != nil {
		return
	}
	for _, f := range files {
		if f.name == spoolKept {
			continue
		}
		if _, err := s.Replay(ctx, false); err != nil {
			s.once.warn("spool not replayed", err.Error(), "path", s.spool.Dir(), "error", err)
		}
		return
	}
}

// replay is one pass over the spool.
type replay struct {
	s      *Store
	out    *Replayed
	held   map[string]bool // sessions that have to wait, all their later rows with them
	cached map[string]bool // lines that kept.jsonl holds already
	known  bool            // cached is filled
}

// file replays one sealed file and removes it, unless rows in it have to wait.
func (r *replay) file(ctx context.Context, name string) error {
	var batch []*spooled
	size, waits := 0, false
	flush := func() error {
		w, err := r.store(ctx, batch)
		batch, size, waits = batch[:0], 0, waits || w
		return err
	}
	err := r.s.spool.each(name, func(one *spooled) error {
		batch, size = append(batch, one), size+one.size()
		if len(batch) < replayBatch && size < replayBytes {
			return nil
		}
		return flush()
	})
	if err == nil && mutation.On("replay-removes-first") {
		return errors.Join(r.s.spool.remove(name), flush())
	}
	if err == nil {
		err = flush()
	}
	if err != nil || waits {
		return err
	}
	return r.s.spool.remove(name)
}

func (r *spooled) size() int {
	n := len(r.Raw)
	for _, row := range r.Rows {
		n += len(row.Content) + len(row.Wire) + len(row.Reasoning) + len(row.ToolCalls)
	}
	return n
}

// fate is what became of one record.
type fate struct {
	stored, already int
	waits           bool
	kept            string
}

// store brings a few records into the store with one commit and sees to those that it did not take.
func (r *replay) store(ctx context.Context, batch []*spooled) (waits bool, err error) {
	if len(batch) == 0 {
		return false, nil
	}
	var fates []fate
	err = r.s.file.Write(ctx, sqlite.Op{
		Label: "replay spool", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			got, err := r.decide(tx, batch)
			fates = got
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) { return r.isIn(c, batch, fates) },
	})
	if err != nil && !sqlite.IsCommitted(err) {
		return false, err
	}
	added := 0
	for i, f := range fates {
		added += f.stored
		r.out.Stored, r.out.Already = r.out.Stored+f.stored, r.out.Already+f.already
		if f.waits {
			waits = true
			r.out.Waiting += len(batch[i].Rows)
		}
		if f.kept != "" {
			if err := r.keep(ctx, batch[i], f.kept); err != nil {
				return waits, err
			}
		}
	}
	r.s.work.added(added)
	return waits, nil
}

// isIn settles a commit of unknown fate by everything that the transaction did: the last row of each record that it stored,
// and each lease that it ended.
func (r *replay) isIn(c *sqlite.Conn, batch []*spooled, fates []fate) (bool, error) {
	for i, f := range fates {
		one := batch[i]
		in, err := true, error(nil)
		switch {
		case f.stored > 0:
			in, err = hasUID(c, one.Rows[len(one.Rows)-1].UID)
		case one.Release && !f.waits:
			in, err = holds(c, Lease{Session: one.Session.ID, Kind: Turn, Token: one.Token})
			in = !in
		}
		if err != nil || !in {
			return false, err
		}
	}
	return true, nil
}

// decide does all records of a batch inside one transaction; it may run again from the start.
func (r *replay) decide(tx *sqlite.Tx, batch []*spooled) ([]fate, error) {
	fates, held := make([]fate, len(batch)), map[string]bool{}
	for i, one := range batch {
		f, err := fate{waits: true}, error(nil)
		if !r.held[one.Session.ID] && !held[one.Session.ID] {
			if f, err = r.one(tx, one); err != nil {
				return nil, err
			}
		}
		if f.waits {
			held[one.Session.ID] = true
		}
		fates[i] = f
	}
	for id := range held {
		r.held[id] = true
	}
	return fates, nil
}

// one replays a record.
func (r *replay) one(tx *sqlite.Tx, one *spooled) (fate, error) {
	switch {
	case len(one.Raw) > 0:
		return fate{kept: "the line cannot be read: its checksum differs"}, nil
	case one.Release:
		_, err := tx.Exec(`DELETE FROM leases WHERE session_id = ? AND kind = 'turn' AND token = ?`, one.Session.ID, one.Token)
		return fate{}, err
	}
	fresh, err := missingRows(tx.Conn, one.messages())
	out := fate{already: len(one.Rows) - len(fresh)}
	if err != nil || len(fresh) == 0 {
		return out, err
	}
	if out.waits, out.kept, err = r.s.admits(tx, one); err != nil || out.waits || out.kept != "" {
		return out, err
	}
	for _, m := range fresh {
		if err := m.check(0); err != nil {
			return fate{kept: err.Error()}, nil
		}
	}
	out.stored = len(fresh)
	_, err = insertMessages(tx, one.Session.ID, fresh)
	return out, err
}

// missingRows are those that the store does not hold.
func missingRows(c *sqlite.Conn, rows []NewMessage) ([]NewMessage, error) {
	if mutation.On("replay-without-uid") {
		for i := range rows {
			rows[i].UID = newUID(time.Now())
		}
		return rows, nil
	}
	var out []NewMessage
	for _, m := range rows {
		in, err := hasUID(c, m.UID)
		if err != nil {
			return nil, err
		}
		if !in {
			out = append(out, m)
		}
	}
	return out, nil
}

// admits asks whether the session takes the rows of a record: it makes one that is gone, and it asks the turn lease, which
// must be the one under which the rows were said, or nobody's.
func (s *Store) admits(tx *sqlite.Tx, one *spooled) (waits bool, kept string, err error) {
	row, found, err := s.querySession(tx.Conn, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, one.Session.ID)
	switch {
	case err != nil:
		return false, "", err
	case !found:
		if gone, err := buried(tx.Conn, one.Session.ID); err != nil || gone {
			return false, "the session was deleted", err
		}
		return false, "", s.remake(tx, one)
	case row.EndedAt != nil:
		return false, "the session has ended (" + row.EndReason + "); reopen it, then run `gatewayd sessions salvage`", nil
	}
	held, found, err := readLease(tx.Conn, one.Session.ID, Turn)
	if err != nil || !found || held.Token == one.Token {
		return false, "", err
	}
	return held.alive(), "", nil
}

// remake makes a session that the spool knows and the store does not: the file was replaced by an older one, or repaired.
func (s *Store) remake(tx *sqlite.Tx, one *spooled) error {
	n := NewSession(one.Session)
	if n.Parent != "" {
		if found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, n.Parent); err != nil || !found {
			if n.Parent = ""; err != nil {
				return err
			}
		}
	}
	if err := insertSession(tx, n, stampOr(one.Opened, one.At.UnixMicro())); err != nil {
		return err
	}
	s.once.warn("session made anew from the spool", n.ID, "session", n.ID)
	if n.Key == "" {
		return nil
	}
	_, err := tx.Exec(`INSERT OR IGNORE INTO routes(key, session_id, updated_at) VALUES(?, ?, ?)`, n.Key, n.ID, time.Now().UnixMicro())
	return err
}

// keep puts a record aside with its reason. It may be there from an earlier pass that was killed before the file was
// removed.
func (r *replay) keep(ctx context.Context, one *spooled, reason string) error {
	if !r.known {
		if err := r.readKept(); err != nil {
			return err
		}
		r.known = true
	}
	one.Kept = reason
	r.out.Kept = append(r.out.Kept, KeptSpooled{Session: one.Session.ID, Rows: len(one.Rows), Reason: reason})
	if r.cached[one.name()] {
		return nil
	}
	r.cached[one.name()] = true
	line, err := one.line()
	if err != nil {
		return err
	}
	unlock, err := r.s.spool.lock(ctx, spoolLock)
	if err != nil {
		return err
	}
	defer unlock()
	return r.s.spool.write(r.s.spool.file(spoolKept), line)
}

func (r *replay) readKept() error {
	files, err := r.s.spool.list()
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.name != spoolKept {
			continue
		}
		return r.s.spool.each(f.name, func(one *spooled) error {
			r.cached[one.name()] = true
			return nil
		})
	}
	return nil
}

// name tells one record from another.
func (r *spooled) name() string {
	if len(r.Rows) > 0 {
		return r.Rows[0].UID
	}
	return sumOf(r.Raw)
}

// healPatience bounds what a start waits for another process that replays.
const healPatience = time.Minute

// heal brings back what the store missed. What it cannot bring back stays where it is, and the store opens all the same;
// so it goes on when whoever happened to open the store has stopped waiting. The next one would be handed a store that
// lacks acknowledged rows, and would write behind the gap.
func (s *Store) heal(ctx context.Context) {
	if s.Writable() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healPatience)
	defer cancel()
	s.salvageOwn(ctx)
	if _, err := s.Replay(ctx, false); err != nil {
		s.log.Error("spool not replayed, its rows stay there", "path", s.spool.Dir(), "error", err)
	}
}
