package sessiondb

import (
	"context"
	"fmt"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// Rewound says what a rewind took back. Removed are the rows as they were, the person's message first: whoever says it
// again finds it there.
type Rewound struct {
	Removed []Message
	Active  int // live rows now
}

// RewindTo takes the live rows from id on out of the conversation; they stay in the file, superseded. expected names the
// rows that the caller decided on, all live ones; ErrStalePlan when they are others now. ErrRewindTarget: id is no live
// row of this session, because it never was or because a compaction folded it away. A scaffold, if there is one, is
// written in their place. The rows that stay are not touched.
func (s *Store) RewindTo(ctx context.Context, l Lease, id int64, expected Seen, scaffold *NewMessage) (Rewound, error) {
	return s.rewind(ctx, l, scaffold, func(rows []Message) (int, error) {
		if See(rows) != expected && !mutation.On("rewind-without-compare") {
			return 0, errStalePlan(l.Session)
		}
		for i, m := range rows {
			if m.ID == id {
				return i, nil
			}
		}
		return 0, errRewindTarget(l.Session, "message %d is not live in it", id)
	})
}

// RewindTurns takes back whole exchanges, down to the beginning of one that a person began, so that no result stays
// without its call. turn is 1 for the first of the live ones and -1 for the last; further back than there are any means
// the first. ErrRewindTarget: nobody began one, or turn lies after the last. It decides and writes in one transaction.
func (s *Store) RewindTurns(ctx context.Context, l Lease, turn int) (Rewound, error) {
	return s.rewind(ctx, l, nil, func(rows []Message) (int, error) {
		starts := Exchanges(rows)
		switch {
		case turn == 0:
			return 0, errInvalid("rewind", "takes a turn from the beginning (1, 2, …) or from the end (-1, -2, …)")
		case len(starts) == 0:
			return 0, errRewindTarget(l.Session, "there is no turn to take back")
		case turn > len(starts):
			return 0, errRewindTarget(l.Session, "it has %d turns, there is no turn %d", len(starts), turn)
		case turn > 0:
			return starts[turn-1], nil
		}
		return starts[max(0, len(starts)+turn)], nil
	})
}

func errRewindTarget(session, format string, args ...any) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: sessionThing(session), What: "cannot be taken back: " + fmt.Sprintf(format, args...),
		Fate: "nothing was changed", Remedy: "look at its live rows with `gatewayd sessions show`", Err: mark{ErrRewindTarget},
	}
}

// rewind lets choose say at which of the live rows to begin.
func (s *Store) rewind(ctx context.Context, l Lease, scaffold *NewMessage, choose func([]Message) (int, error)) (out Rewound, err error) {
	var instead []NewMessage
	if scaffold != nil {
		if instead, err = s.prepare(l.Session, []NewMessage{*scaffold}); err != nil {
			return Rewound{}, err
		}
	}
	err = s.file.Write(ctx, sqlite.Op{
		Label: "rewind conversation", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			done, err := s.takeBack(tx, l, instead, choose)
			out = done
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM messages WHERE id = ? AND active = 0`, out.Removed[0].ID)
		},
	})
	if err != nil && !sqlite.IsCommitted(err) {
		return Rewound{}, err
	}
	s.work.added(len(instead))
	s.log.Info("conversation rewound", "session", l.Session, "rows", len(out.Removed), "live", out.Active)
	return out, err
}

func (s *Store) takeBack(tx *sqlite.Tx, l Lease, instead []NewMessage, choose func([]Message) (int, error)) (Rewound, error) {
	if err := verify(tx, l); err != nil {
		return Rewound{}, err
	}
	rows, err := s.queryMessages(tx.Conn, nil, selectTranscript, l.Session, 0)
	if err != nil {
		return Rewound{}, err
	}
	at, err := choose(rows)
	if err != nil {
		return Rewound{}, err
	}
	if err := setState(tx, idsOf(rows[at:]), 0, 0); err != nil {
		return Rewound{}, err
	}
	if len(instead) > 0 {
		if _, err := insertMessages(tx, l.Session, instead); err != nil {
			return Rewound{}, err
		}
	}
	if _, err := tx.Exec(`UPDATE sessions SET rewind_count = rewind_count + 1 WHERE id = ?`, l.Session); err != nil {
		return Rewound{}, err
	}
	return Rewound{Removed: rows[at:], Active: at + len(instead)}, recount(tx, l.Session)
}
