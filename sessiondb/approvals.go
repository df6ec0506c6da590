package sessiondb

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// States of an approval.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved"
	ApprovalDenied   = "denied"
)

// Approval is what a person was asked before a tool had its effect, and what came of it. It is the audit trail: it is written before
// anybody is asked, and goes only with its session.
type Approval struct {
	ID        string     `json:"id"`
	Session   string     `json:"session"`
	Turn      string     `json:"turn"`
	CallID    string     `json:"call_id"`
	Tool      string     `json:"tool"`
	Effect    string     `json:"effect"`
	Reason    string     `json:"reason"`
	Rules     []string   `json:"rules"`
	State     string     `json:"state"`
	Decision  string     `json:"decision,omitempty"`   // once, session, always, deny; timeout, restart, turn_ended
	DecidedBy string     `json:"decided_by,omitempty"` // who: a person's door and name, or what else settled it
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	DecidedAt *time.Time `json:"decided_at,omitempty"`
}

// Pending reports that nobody has decided yet.
func (a Approval) Pending() bool { return a.State == ApprovalPending }

// Verdict is how an approval ends.
type Verdict struct {
	State    string // ApprovalApproved or ApprovalDenied
	Decision string
	By       string
	Grant    Grant // with Rules set, it is granted in the same transaction
}

// Grant lets calls that touch nothing but its rules run without asking: in one session, or, without one, in all.
type Grant struct {
	Session   string    `json:"session,omitempty"`
	Rules     []string  `json:"-"`
	Rule      string    `json:"rule"`
	Approval  string    `json:"approval,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

const approvalColumns = `id, session_id, turn_id, call_id, tool, effect, reason, rule, state, decision, decided_by, created_at, expires_at, decided_at`

// ruleSeparator stands between the rules of one approval; no rule holds it.
const ruleSeparator = ","

func scanApproval(r *sqlite.Row) Approval {
	a := Approval{
		ID: r.Text(0), Session: r.Text(1), Turn: r.Text(2), CallID: r.Text(3), Tool: r.Text(4), Effect: r.Text(5), Reason: r.Text(6),
		Rules: strings.Split(r.Text(7), ruleSeparator), State: r.Text(8), Decision: text(r, 9), DecidedBy: text(r, 10),
		CreatedAt: moment(r.Int(11)), ExpiresAt: moment(r.Int(12)),
	}
	if !r.Null(13) {
		at := moment(r.Int(13))
		a.DecidedAt = &at
	}
	return a
}

// NewApprovalID is short enough to be typed; whoever may decide has the daemon's key, so nothing hangs on its being a secret.
func NewApprovalID() string { return strings.ToLower(rand.Text()[:8]) }

// AskApproval records that a person is asked, and gives the record. It is pending until it is decided; wait is how long the asker
// means to wait. An empty ID is made up.
func (s *Store) AskApproval(ctx context.Context, a Approval, wait time.Duration) (Approval, error) {
	now := time.Now()
	if a.ID == "" {
		a.ID = NewApprovalID()
	}
	a.State, a.CreatedAt, a.ExpiresAt = ApprovalPending, now.UTC(), now.Add(wait).UTC()
	err := s.file.Write(ctx, sqlite.Op{
		Label: "ask for approval", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			if found, err := exists(tx.Conn, `SELECT 1 FROM sessions WHERE id = ?`, a.Session); err != nil || !found {
				return firstError(err, errSessionMissing(a.Session))
			}
			_, err := tx.Exec(`INSERT INTO approvals(id, session_id, turn_id, call_id, tool, effect, reason, rule, created_at, expires_at)
 VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, a.ID, a.Session, a.Turn, a.CallID, a.Tool, a.Effect, a.Reason, strings.Join(a.Rules, ruleSeparator),
				a.CreatedAt.UnixMicro(), a.ExpiresAt.UnixMicro())
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) { return exists(c, `SELECT 1 FROM approvals WHERE id = ?`, a.ID) },
	})
	return a, err
}

// DecideApproval settles a pending approval, with what it grants, in one transaction. The first decision counts: won is false when
// there was one already, and the record tells which.
func (s *Store) DecideApproval(ctx context.Context, id string, v Verdict) (out Approval, won bool, err error) {
	now := time.Now().UnixMicro()
	err = s.file.Write(ctx, sqlite.Op{
		Label: "decide approval", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			res, err := tx.Exec(`UPDATE approvals SET state = ?, decision = ?, decided_by = ?, decided_at = ? WHERE id = ? AND state = 'pending'`,
				v.State, v.Decision, v.By, now, id)
			if err != nil {
				return err
			}
			if won = res.Changes > 0; won {
				err = addGrants(tx, v.Grant, id, now)
			}
			if err == nil {
				out, err = approvalByID(tx.Conn, id)
			}
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			return exists(c, `SELECT 1 FROM approvals WHERE id = ? AND decided_at = ? AND decided_by = ?`, id, now, v.By)
		},
	})
	return out, won, err
}

func addGrants(tx *sqlite.Tx, g Grant, approval string, at int64) error {
	for _, rule := range g.Rules {
		_, err := tx.Exec(`INSERT INTO grants(session_id, rule, approval_id, created_at) VALUES(?, ?, ?, ?) ON CONFLICT DO NOTHING`, g.Session, rule, approval, at)
		if err != nil {
			return err
		}
	}
	return nil
}

func approvalByID(c *sqlite.Conn, id string) (Approval, error) {
	for r, err := range c.Query(`SELECT `+approvalColumns+` FROM approvals WHERE id = ?`, id) {
		if err != nil {
			return Approval{}, err
		}
		return scanApproval(r), nil
	}
	return Approval{}, errNoApproval(id)
}

func errNoApproval(id string) error {
	return &problem.Error{
		Kind: problem.NotFound, Thing: "approval " + id, What: "does not exist", Fate: "nothing was decided",
		Remedy: "`gatewayd approvals` lists those that wait", Field: "id",
	}
}

// ApprovalFilter says which approvals are listed; the zero value is the newest hundred of all.
type ApprovalFilter struct {
	State   string
	Session string
	Turn    string
	Limit   int
}

// Approvals lists them, the newest first.
func (s *Store) Approvals(ctx context.Context, f ApprovalFilter) (out []Approval, err error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out = nil
		for r, err := range c.Query(`SELECT `+approvalColumns+` FROM approvals WHERE (?1 = '' OR state = ?1) AND (?2 = '' OR session_id = ?2)
 AND (?3 = '' OR turn_id = ?3) ORDER BY created_at DESC, id LIMIT ?4`, f.State, f.Session, f.Turn, f.Limit) {
			if err != nil {
				return err
			}
			out = append(out, scanApproval(r))
		}
		return nil
	})
	return out, err
}

// Approval reads one.
func (s *Store) Approval(ctx context.Context, id string) (out Approval, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out, err = approvalByID(c, id)
		return err
	})
	return out, err
}

// CloseApprovals denies whatever is pending, and gives what it denied: nobody waits for it any more.
func (s *Store) CloseApprovals(ctx context.Context, decision, by string) ([]Approval, error) {
	pending, err := s.Approvals(ctx, ApprovalFilter{State: ApprovalPending, Limit: 10_000})
	if err != nil {
		return nil, err
	}
	closed := pending[:0]
	for _, a := range pending {
		a, won, err := s.DecideApproval(ctx, a.ID, Verdict{State: ApprovalDenied, Decision: decision, By: by})
		if err != nil {
			return closed, err
		}
		if won {
			closed = append(closed, a)
		}
	}
	return closed, nil
}

// Granted reports whether each of the rules is granted in the session or everywhere, and by which approval the first of them was.
func (s *Store) Granted(ctx context.Context, session string, rules []string) (granted bool, by string, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		granted, by = len(rules) > 0, ""
		for _, rule := range rules {
			var approval string
			found, err := c.Row(`SELECT approval_id FROM grants WHERE rule = ? AND session_id IN ('', ?) ORDER BY session_id LIMIT 1`, []any{rule, session}, &approval)
			if err != nil || !found {
				granted = false
				return err
			}
			by = firstText(by, approval)
		}
		return nil
	})
	return granted, by, err
}

func firstText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Grants lists what is granted, those without a session first.
func (s *Store) Grants(ctx context.Context) (out []Grant, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out = nil
		for r, err := range c.Query(`SELECT session_id, rule, approval_id, created_at FROM grants ORDER BY session_id, rule`) {
			if err != nil {
				return err
			}
			out = append(out, Grant{Session: r.Text(0), Rule: r.Text(1), Approval: r.Text(2), CreatedAt: moment(r.Int(3))})
		}
		return nil
	})
	return out, err
}

// Revoke takes a grant back: of one session, or, without one, the one for always.
func (s *Store) Revoke(ctx context.Context, session, rule string) error {
	return s.file.Write(ctx, sqlite.Op{
		Label: "revoke grant", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			res, err := tx.Exec(`DELETE FROM grants WHERE session_id = ? AND rule = ?`, session, rule)
			if err == nil && res.Changes == 0 {
				return &problem.Error{
					Kind: problem.NotFound, Thing: "grant of " + rule, What: "does not exist", Fate: "nothing was changed",
					Remedy: "`gatewayd approvals grants` lists what is granted",
				}
			}
			return err
		},
		Done: func(c *sqlite.Conn) (bool, error) {
			found, err := exists(c, `SELECT 1 FROM grants WHERE session_id = ? AND rule = ?`, session, rule)
			return !found, err
		},
	})
}
