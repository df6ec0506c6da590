package sessiondb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gatewayd/internal/sqlite"
)

// Level says what a finding means for the one who reads it.
type Level string

// The two levels.
const (
	Damage Level = "damage" // a promise of the store is broken
	Notice Level = "notice" // unusual but sound: the store mends it by itself, or it only looks odd
)

// Finding is one thing that an audit found. Code is stable: scripts and tests may compare it.
type Finding struct {
	Code    string `json:"code"`
	Level   Level  `json:"level"`
	Session string `json:"session,omitempty"`
	Row     int64  `json:"row,omitempty"` // id of the message, 0 when it is not about one
	What    string `json:"what"`
	Remedy  string `json:"remedy"`
}

func (f Finding) String() string {
	where := "store"
	if f.Session != "" {
		where = sessionThing(f.Session)
	}
	if f.Row != 0 {
		where += fmt.Sprintf(", row %d", f.Row)
	}
	return fmt.Sprintf("%s: %s %s; %s", f.Code, where, f.What, f.Remedy)
}

// Running is a lease whose holder lives: what its session lacks at the end is being written.
type Running struct {
	Session string    `json:"session"`
	Kind    LeaseKind `json:"kind"`
	Holder  Holder    `json:"holder"`
	Expires time.Time `json:"expires"`
}

// Audit is what Verify found. Findings beyond VerifyOptions.MaxFindings are only counted, in More.
type Audit struct {
	Sessions int64     `json:"sessions"`
	Messages int64     `json:"messages"`
	Live     int64     `json:"live"`
	Running  []Running `json:"running"`
	Findings []Finding `json:"findings"`
	Damaged  int64     `json:"damaged"` // findings of level damage, those in More too
	More     int64     `json:"more,omitempty"`
}

// OK reports that no promise is broken; there may be notices.
func (a Audit) OK() bool { return a.Damaged == 0 }

// VerifyOptions choose what is audited. The zero value audits every session, what belongs to none, the indexes and the
// structure of the file by quick_check.
type VerifyOptions struct {
	Sessions    []string // only these, and nothing that belongs to no session; an unknown one is a NotFound problem
	Deep        bool     // integrity_check in place of quick_check, and the uids of all rows compared: minutes for gigabytes
	RowsOnly    bool     // leave the structure of the file out
	MaxFindings int      // 0: 1000
}

const defaultFindings = 1000

// verifier is one run of Verify.
type verifier struct {
	s       *Store
	o       VerifyOptions
	out     Audit
	parents map[string]string // of every session that has one
}

// Verify audits rows, flags, counters, references and indexes. It only reads, each session in a snapshot of its own, so
// it may run beside any number of writers; of what is being written it says Running and not damage. The structure check
// holds one snapshot for as long as it takes to read the file. An error means that the audit itself could not be done.
func Verify(ctx context.Context, s *Store, o VerifyOptions) (Audit, error) {
	if o.MaxFindings <= 0 {
		o.MaxFindings = defaultFindings
	}
	v := &verifier{s: s, o: o, parents: map[string]string{}, out: Audit{Running: []Running{}, Findings: []Finding{}}}
	ids, err := v.sessions(ctx)
	if err != nil {
		return Audit{}, err
	}
	for _, id := range ids {
		err := v.session(ctx, id)
		if corrupt(err) {
			f := structureFinding("its rows cannot be read")
			f.Session = id
			v.report(f)
			continue
		}
		if err != nil {
			return Audit{}, fmt.Errorf("verify %s: %w", sessionThing(id), err)
		}
		v.lineage(id)
	}
	if len(o.Sessions) == 0 {
		err = v.store(ctx)
	}
	return v.out, err
}

func (v *verifier) report(f Finding) {
	if f.Level == Damage {
		v.out.Damaged++
	}
	if len(v.out.Findings) >= v.o.MaxFindings {
		v.out.More++
		return
	}
	v.out.Findings = append(v.out.Findings, f)
}

// sessions gives the ids to audit, and learns who is whose parent.
func (v *verifier) sessions(ctx context.Context) (ids []string, err error) {
	var all []string
	known := map[string]bool{}
	err = v.s.file.Read(ctx, func(c *sqlite.Conn) error {
		all, v.parents = nil, map[string]string{}
		for r, err := range c.Query(`SELECT id, parent FROM sessions ORDER BY id`) {
			if err != nil {
				return err
			}
			all = append(all, r.Text(0))
			known[r.Text(0)] = true
			if !r.Null(1) {
				v.parents[r.Text(0)] = r.Text(1)
			}
		}
		return nil
	})
	if err != nil || len(v.o.Sessions) == 0 {
		return all, err
	}
	for _, id := range v.o.Sessions {
		if !known[id] {
			return nil, errSessionMissing(id)
		}
	}
	return v.o.Sessions, nil
}

// lineage looks for a circle of parents above a session.
func (v *verifier) lineage(id string) {
	at := id
	for range len(v.parents) + 1 {
		parent, ok := v.parents[at]
		if !ok {
			return
		}
		if parent == id {
			v.report(Finding{
				Code: "parent_circle", Level: Damage, Session: id, What: "is its own ancestor",
				Remedy: "export it and report it; lists and searches are not affected",
			})
			return
		}
		at = parent
	}
}

const auditSession = `SELECT message_count, last_active, preview, opened_at, ended_at FROM sessions WHERE id = ?`

const auditRows = `SELECT id, origin_id, active, compacted, created_at, uid, role, kind, tool_calls, tool_call_id
 FROM messages WHERE session_id = ? ORDER BY id`

// session audits one session in one snapshot. A session that is gone by now was deleted meanwhile.
func (v *verifier) session(ctx context.Context, id string) error {
	var found []Finding
	var a *audit
	var running []Running
	err := v.s.file.Read(ctx, func(c *sqlite.Conn) error {
		found, running = nil, nil // the read may be run again
		keep := func(f Finding) { found = append(found, f) }
		a = nil
		var end string
		there, err := c.Row(`SELECT end_reason FROM sessions WHERE id = ?`, []any{id}, &end)
		if err != nil || !there {
			return err
		}
		if end == EndDeleted { // its rows go in pieces, and counters are not kept for that
			keep(Finding{Code: "deletion_unfinished", Level: Notice, Session: id, What: "is being deleted", Remedy: "the next prune goes on with it"})
			return nil
		}
		if running, err = runningLeases(c, id, keep); err != nil {
			return err
		}
		turn := slices.ContainsFunc(running, func(r Running) bool { return r.Kind == Turn })
		a = newAudit(id, turn, keep)
		if err := feed(c, a, id); err != nil {
			return err
		}
		a.end()
		return a.counters(c)
	})
	if err != nil {
		return err
	}
	for _, f := range found {
		v.report(f)
	}
	v.out.Running = append(v.out.Running, running...)
	if a != nil {
		v.out.Sessions++
		v.out.Messages += a.rows
		v.out.Live += a.live
	}
	return nil
}

func feed(c *sqlite.Conn, a *audit, id string) error {
	for r, err := range c.Query(auditRows, id) {
		if err != nil {
			return err
		}
		a.add(auditRow{
			id: r.Int(0), origin: r.Int(1), active: r.Int(2), compacted: r.Int(3), at: r.Int(4),
			uid: r.Text(5), role: r.Text(6), kind: r.Text(7), calls: r.Text(8), answers: r.Text(9),
		})
	}
	return nil
}

// runningLeases gives the leases that somebody holds, and notices those that nobody does.
func runningLeases(c *sqlite.Conn, id string, report func(Finding)) (running []Running, err error) {
	for _, kind := range []LeaseKind{Turn, Compacting} {
		l, found, err := readLease(c, id, kind)
		if err != nil {
			return nil, err
		}
		switch {
		case !found:
		case l.Expires.After(time.Now()) && !l.Holder.Dead():
			running = append(running, Running{Session: id, Kind: kind, Holder: l.Holder, Expires: l.Expires})
		default:
			report(Finding{
				Code: "lease_left", Level: Notice, Session: id, What: fmt.Sprintf("has a %s lease of %s, which is gone", kind, l.Holder),
				Remedy: "the next turn takes it over",
			})
		}
	}
	return running, nil
}

// counters compares what lists show with the rows.
func (a *audit) counters(c *sqlite.Conn) error {
	var count, active, opened int64
	var ended *int64
	var preview string
	if _, err := c.Row(auditSession, []any{a.session}, &count, &active, &preview, &opened, &ended); err != nil {
		return err
	}
	if count != a.live {
		a.damage("counter_wrong", 0, "it heals with the next compaction, rewind or repair of the conversation", "counts %d live rows and has %d", count, a.live)
	}
	for _, at := range []int64{opened, active} {
		if !sane(at) {
			a.notice("time_absurd", 0, remedyNone, "has the time %d, which no clock showed", at)
		}
	}
	if sane(active) && active < a.lastSane {
		a.damage("last_active_behind", 0, "it heals with the next row", "was active at %d and has a row of %d (microseconds)", active, a.lastSane)
	}
	if preview == "" {
		return a.preview(c)
	}
	if n := len([]rune(preview)); n > previewRunes {
		a.damage("preview_wrong", 0, remedyNone, "has a preview of %d characters; at most %d are kept", n, previewRunes)
	}
	return nil
}

// preview looks for a text that the empty preview should show.
func (a *audit) preview(c *sqlite.Conn) error {
	for r, err := range c.Query(`SELECT id, substr(content, 1, 512) FROM messages WHERE session_id = ? AND role = 'user' ORDER BY id LIMIT 20`, a.session) {
		if err != nil {
			return err
		}
		if previewOf(r.Text(1)) != "" {
			a.damage("preview_wrong", r.Int(0), "it heals with the next message of the user", "is a text of the user, and the preview is empty")
			return nil
		}
	}
	return nil
}
