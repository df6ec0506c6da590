package sessiondb

import (
	"context"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// Compaction is a plan that replaces live rows of a session by fewer. It was made on the rows that Seen names, and it
// gives each of them a place:
//
//   - a row of Rows with Keep: it goes on as a copy in its new place, byte for byte;
//   - a row of Covered: it is folded away. Covered nil means every row that is not kept;
//   - neither: it stays as it is. Only rows before the first kept or covered one can, since a copy comes after them.
//
// What was appended after Seen.Watermark is not part of the plan; it goes on behind Rows.
type Compaction struct {
	Lease   Lease // of kind Compacting, proved inside the transaction
	Seen    Seen
	Rows    []CompactedRow
	Covered []int64
}

// CompactedRow is one row of the new live set: a live row that goes on, or a new one.
type CompactedRow struct {
	Keep int64      // id of the live row; 0: New is written
	New  NewMessage // the summary (KindSummary), or what is sent in place of several rows (KindModelOnly)
}

// Compacted says what a compaction did.
type Compacted struct {
	Summary                    int64 // id of the first new row; 0: there was none
	Folded, Kept, Late, Active int   // rows folded, rows copied, rows copied that came meanwhile, live rows now
}

// ArchiveAndCompact carries the plan out in one transaction, or changes nothing. No row is deleted: what was folded stays
// to be shown and found (active 0, compacted 1), the originals of copies stay superseded (0, 0). A copy has a new uid and
// the origin of its original. The uids of the folded rows are kept with the first new row (Absorbed).
//
// Appends beside it never wait for the summary: a row that came since is copied behind the new set. ErrLeaseLost: the
// lease is somebody else's or ran out. ErrStalePlan: the rows are no longer those that were seen. ErrSessionEnded: a
// compaction never goes on with, and never reopens, a conversation that has ended. An Invalid problem is a plan that
// would lose a row's place or part a call from its result.
func (s *Store) ArchiveAndCompact(ctx context.Context, c Compaction) (Compacted, error) {
	f, err := s.newFold(c)
	if err != nil {
		return Compacted{}, err
	}
	var out Compacted
	err = s.file.Write(ctx, sqlite.Op{
		Label: "compact conversation", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			done, err := s.fold(tx, f)
			out = done
			return err
		},
		Done: func(conn *sqlite.Conn) (bool, error) { return hasUID(conn, f.uids[0]) },
	})
	if err != nil && !sqlite.IsCommitted(err) {
		return Compacted{}, err
	}
	s.work.added(out.Kept + out.Late + 1)
	s.log.Info("conversation compacted", "session", c.Lease.Session, "folded", out.Folded, "kept", out.Kept, "late", out.Late, "live", out.Active)
	return out, err
}

// fold is a plan ready to be carried out, with the uids made before the transaction.
type fold struct {
	Compaction
	news []NewMessage // Rows' new ones, in their order
	uids []string     // of Rows, in their order
}

func (s *Store) newFold(c Compaction) (*fold, error) {
	f := &fold{Compaction: c}
	if len(c.Rows) == 0 {
		return nil, errPlan(c.Lease.Session, "leaves nothing to go on with")
	}
	for _, r := range c.Rows {
		if r.Keep == 0 {
			f.news = append(f.news, r.New)
		}
	}
	news, err := s.prepare(c.Lease.Session, f.news)
	if err != nil {
		return nil, err
	}
	f.news = news
	now := time.Now()
	for _, r := range c.Rows {
		if r.Keep != 0 {
			f.uids = append(f.uids, newUID(now))
		} else {
			f.uids, news = append(f.uids, news[0].UID), news[1:]
		}
	}
	return f, nil
}

func (s *Store) fold(tx *sqlite.Tx, f *fold) (Compacted, error) {
	session := f.Lease.Session
	if err := verifyCompaction(tx, f.Lease); err != nil {
		return Compacted{}, err
	}
	old, err := s.seenRows(tx.Conn, session, f.Seen)
	if err != nil {
		return Compacted{}, err
	}
	late, err := s.rowsAfter(tx.Conn, session, f.Seen.Watermark)
	if err != nil {
		return Compacted{}, err
	}
	p, err := f.places(old, late)
	if err != nil {
		return Compacted{}, err
	}
	return f.carryOut(tx, p, late)
}

func (f *fold) carryOut(tx *sqlite.Tx, p places, late []Message) (out Compacted, err error) {
	if err := p.retire(tx, late); err != nil {
		return out, err
	}
	w := &copier{tx: tx, session: f.Lease.Session}
	if w.id, err = lastMessageID(tx.Conn); err != nil {
		return out, err
	}
	if out.Summary, err = f.writeRows(w); err != nil {
		return out, err
	}
	if err := w.copyLate(late); err != nil {
		return out, err
	}
	if err := p.remember(tx, f.Lease.Session, out.Summary); err != nil {
		return out, err
	}
	if err := recount(tx, f.Lease.Session); err != nil {
		return out, err
	}
	out.Folded, out.Kept, out.Late = len(p.folded), len(f.Rows)-len(f.news), len(late)
	out.Active = len(p.untouched) + len(f.Rows) + len(late)
	return out, nil
}

// writeRows writes the new live set and returns the id of its first new row.
func (f *fold) writeRows(w *copier) (summary int64, err error) {
	news := f.news
	for i, r := range f.Rows {
		if r.Keep != 0 {
			err = w.copy(r.Keep, f.uids[i])
		} else {
			err = w.insert(news[0])
			news = news[1:]
			if summary == 0 {
				summary = w.id
			}
		}
		if err != nil {
			return 0, err
		}
	}
	return summary, nil
}

// copier writes rows one after the other, in the order in which they are to be read.
type copier struct {
	tx      *sqlite.Tx
	session string
	id      int64 // of the last row
}

const copyMessage = `INSERT INTO messages(` + messageColumns + `, session_id)
 SELECT ?1, ?2, turn_id, origin_id, role, content, wire, tool_calls, tool_call_id, tool_name,
 effect, finish_reason, reasoning, kind, 1, 0, created_at, session_id FROM messages WHERE id = ?3 AND session_id = ?4`

func (w *copier) copy(id int64, uid string) error {
	if mutation.On("compaction-forgets-kept-rows") {
		return nil
	}
	w.id++
	res, err := w.tx.Exec(copyMessage, w.id, uid, id, w.session)
	if err == nil && res.Changes != 1 {
		err = errStalePlan(w.session)
	}
	return err
}

func (w *copier) insert(m NewMessage) error {
	w.id++
	return insertRow(w.tx, w.id, m, w.session)
}

// copyLate carries on what was appended while the summary was written.
func (w *copier) copyLate(late []Message) error {
	if mutation.On("compaction-drops-late-rows") {
		return nil
	}
	now := time.Now()
	for _, m := range late {
		if err := w.copy(m.ID, newUID(now)); err != nil {
			return fmt.Errorf("carry on rows that came meanwhile: %w", err)
		}
	}
	return nil
}
