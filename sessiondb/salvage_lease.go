package sessiondb

import (
	"context"
	"fmt"

	"gatewayd/internal/sqlite"
)

// capturedLease is a lease with the moment at which it was taken.
type capturedLease struct {
	Lease
	acquired int64 // µs
}

// leases brings back the leases that were lost with the log, for turns that go on: without its lease the next row of such
// a turn would be refused, and what it was told to say would be nowhere. A lease whose holder is gone stays away, and so does
// one that somebody has followed since. A lease that ran out is brought back for a turn of this process alone: it renews it.
func (sv *salvage) leases(ctx context.Context) error {
	captured, err := sv.from.capturedLeases(ctx)
	if err != nil {
		return err
	}
	var wanted []capturedLease
	for _, l := range captured {
		if l.alive() || l.Holder.Identity == sv.own.Identity {
			wanted = append(wanted, l)
		}
	}
	var lost []capturedLease
	err = sv.s.file.Read(ctx, func(c *sqlite.Conn) error {
		lost, err = lostLeases(c, wanted)
		return err
	})
	if err != nil || len(lost) == 0 {
		return err
	}
	err = sv.s.file.Write(ctx, sqlite.Op{
		Label: "salvage leases", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			if lost, err = lostLeases(tx.Conn, wanted); err != nil {
				return err
			}
			for _, l := range lost {
				if err := putLease(tx, l.Lease, l.acquired); err != nil {
					return err
				}
			}
			return nil
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			left, err := lostLeases(c, wanted)
			return len(left) == 0, err
		},
	})
	if err == nil || sqlite.IsCommitted(err) {
		sv.out.Leases = len(lost)
		return nil
	}
	return fmt.Errorf("leases: %w", err)
}

func (s *Store) capturedLeases(ctx context.Context) (out []capturedLease, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out = nil
		for r, err := range c.Query(`SELECT ` + leaseColumns + `, acquired_at FROM leases`) {
			if err != nil {
				return err
			}
			out = append(out, capturedLease{scanLease(r), r.Int(9)})
		}
		return nil
	})
	return out, err
}

// lostLeases are those whose session is here and open, and which nobody took later.
func lostLeases(c *sqlite.Conn, wanted []capturedLease) (lost []capturedLease, err error) {
	for _, l := range wanted {
		open, err := exists(c, `SELECT 1 FROM sessions WHERE id = ? AND ended_at IS NULL`, l.Session)
		if err != nil {
			return nil, err
		}
		followed, err := exists(c, `SELECT 1 FROM leases WHERE session_id = ? AND kind = ? AND (token = ? OR acquired_at > ?)`,
			l.Session, string(l.Kind), l.Token, l.acquired)
		if err != nil {
			return nil, err
		}
		if open && !followed {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// putLease writes a lease in place of whatever is there.
func putLease(tx *sqlite.Tx, l Lease, acquired int64) error {
	_, err := tx.Exec(`INSERT OR REPLACE INTO leases(session_id, kind, token, boot, pid, start, pidns, label, acquired_at, expires_at)
 VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, l.Session, string(l.Kind), l.Token, l.Holder.Boot, l.Holder.PID, int64(l.Holder.Start),
		l.Holder.PIDNS, l.Holder.Label, acquired, l.Expires.UnixMicro())
	return err
}
