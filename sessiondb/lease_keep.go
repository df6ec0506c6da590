package sessiondb

import (
	"context"
	"errors"
	"time"

	"gatewayd/internal/sqlite"
)

const leaseColumns = `session_id, kind, token, boot, pid, start, pidns, label, expires_at`

func scanLease(r *sqlite.Row) Lease {
	l := Lease{Session: r.Text(0), Kind: LeaseKind(r.Text(1)), Token: r.Text(2)}
	l.Holder.Boot, l.Holder.PID, l.Holder.Start = r.Text(3), int(r.Int(4)), uint64(r.Int(5))
	l.Holder.PIDNS, l.Holder.Label = r.Text(6), r.Text(7)
	l.Expires = time.UnixMicro(r.Int(8))
	return l
}

func readLease(c *sqlite.Conn, session string, kind LeaseKind) (Lease, bool, error) {
	for r, err := range c.Query(`SELECT `+leaseColumns+` FROM leases WHERE session_id = ? AND kind = ?`, session, string(kind)) {
		if err != nil {
			return Lease{}, false, err
		}
		return scanLease(r), true, nil
	}
	return Lease{}, false, nil
}

func holds(c *sqlite.Conn, l Lease) (bool, error) {
	return exists(c, `SELECT 1 FROM leases WHERE session_id = ? AND kind = ? AND token = ?`, l.Session, string(l.Kind), l.Token)
}

// Renew moves the expiry to one TTL from now. ErrLeaseLost when the lease is somebody else's or gone; a lease that
// merely ran out, and that nobody took, is renewed.
func (s *Store) Renew(ctx context.Context, l Lease) (Lease, error) {
	if l.TTL <= 0 {
		l.TTL = DefaultLeaseTTL
	}
	l.Expires = time.Now().Add(l.TTL)
	err := s.file.Write(ctx, sqlite.Op{
		Label: "renew lease", Patience: sqlite.Ordinary,
		Do:   func(tx *sqlite.Tx) error { return renew(tx, l) },
		Done: func(c *sqlite.Conn) (bool, error) { return holds(c, l) },
	})
	return l, err
}

func renew(tx *sqlite.Tx, l Lease) error {
	res, err := tx.Exec(`UPDATE leases SET expires_at = ? WHERE session_id = ? AND kind = ? AND token = ?`,
		l.Expires.UnixMicro(), l.Session, string(l.Kind), l.Token)
	if err == nil && res.Changes == 0 {
		return errLeaseLost(l)
	}
	return err
}

// Release gives the lease back. Releasing one that is lost already is no error, and neither is one whose file is in
// quarantine: its end lies in the spool then, with the rows that it held the lease for. Without that the next turn of the
// session would wait for the lease to run out, because the process that holds it is alive.
func (s *Store) Release(ctx context.Context, l Lease) error {
	defer s.turns.tell()
	err := s.release(ctx, l)
	if err != nil && s.diverts(err) {
		return s.spool.Release(ctx, l, err)
	}
	return err
}

func (s *Store) release(ctx context.Context, l Lease) error {
	return s.file.Write(ctx, sqlite.Op{
		Label: "release lease", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			_, err := tx.Exec(`DELETE FROM leases WHERE session_id = ? AND kind = ? AND token = ?`, l.Session, string(l.Kind), l.Token)
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			held, err := holds(c, l)
			return !held, err
		},
	})
}

// Leases lists all leases, expired ones too, oldest expiry first: what a start looks at to find turns that were
// interrupted (Holder.Dead).
func (s *Store) Leases(ctx context.Context) ([]Lease, error) {
	var out []Lease
	err := s.file.Read(ctx, func(c *sqlite.Conn) error {
		out = nil
		for r, err := range c.Query(`SELECT ` + leaseColumns + ` FROM leases ORDER BY expires_at, session_id, kind`) {
			if err != nil {
				return err
			}
			out = append(out, scanLease(r))
		}
		return nil
	})
	return out, err
}

// Break removes somebody else's lease, by the token that was seen. For a caller that knows its holder to be gone by
// other means than the process table (it holds the home's lock).
func (s *Store) Break(ctx context.Context, l Lease) error {
	if l.Token == "" {
		return errors.New("break lease: no token")
	}
	s.log.Warn("lease broken", "session", l.Session, "kind", string(l.Kind), "pid", l.Holder.PID, "holder", l.Holder.Label)
	return s.Release(ctx, l)
}
