package sessiondb

import (
	"context"
	"errors"
	"path/filepath"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb/hermes"
)

// HermesOptions say how conversations come out of a state.db of the Python original.
type HermesOptions struct {
	Path    string // its directory, or the state.db itself; only ever read
	Scratch string // directory for a private copy of it, as large as it is; "": beside our store, or the system's
	DryRun  bool
}

// hermesImport is one run of ImportHermes.
type hermesImport struct {
	s    *Store // nil: an empty one
	src  *hermes.Store
	opts HermesOptions
	out  Moved
}

// ImportHermes copies sessions, messages and usage out of a Hermes state.db of any schema version, in short transactions, so it
// may run beside a daemon and be started again after a kill: what is here already is not added twice, rows that Hermes wrote
// since are, and flags of rows that it changed since follow it. A conversation that went on here, or in which a turn runs, is
// left as it is. A nil Store is an empty one and needs DryRun. An error leaves whole transactions behind; the next run goes
// on from there.
func ImportHermes(ctx context.Context, s *Store, o HermesOptions) (Moved, error) {
	if s == nil && !o.DryRun {
		return Moved{}, errInvalid("import", "needs a store")
	}
	if o.Scratch == "" && s != nil {
		o.Scratch = filepath.Dir(s.file.Path())
	}
	src, err := hermes.Open(ctx, o.Path, o.Scratch)
	if err != nil {
		return Moved{}, err
	}
	h := &hermesImport{s: s, src: src, opts: o, out: Moved{Source: src.Path(), DryRun: o.DryRun, Sessions: []Outcome{}}}
	err = errors.Join(h.run(ctx), src.Close())
	return h.out, err
}

func (h *hermesImport) run(ctx context.Context) error {
	ids, err := h.src.IDs(ctx)
	if err != nil {
		return err
	}
	counts, orphans, err := h.src.Count(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := h.session(ctx, id, counts[id]); err != nil {
			return err
		}
	}
	h.out.Orphans, h.out.Skipped = orphans, h.out.Skipped+orphans
	return nil
}

// session brings one session. Only trouble with our own store or with the whole file is an error.
func (h *hermesImport) session(ctx context.Context, id string, rows int64) error {
	o := Outcome{Session: id}
	if id == "" || !plainName(id) {
		o.skip(rows, "the session's name is empty, too long, or holds control characters or slashes")
		h.out.add(o)
		return nil
	}
	session, found, err := h.src.Session(ctx, id)
	if err != nil || !found {
		return err
	}
	h.warn(session.Warnings)
	here, err := h.look(ctx, id)
	if err != nil {
		return err
	}
	m := &movingSession{hermesImport: h, session: session, here: here, o: &o, named: map[string]bool{}, origins: map[string]*originRef{}}
	err = m.move(ctx)
	h.out.add(o)
	return err
}

func (h *hermesImport) warn(list []hermes.Warning) {
	for _, w := range list {
		h.out.note("%s", w)
	}
}

// present is what of a session is here already.
type present struct {
	exists, local bool // local: it holds rows that were written here
	busy          string
	last          int64 // greatest id of its rows
	rows          map[string]presentRow
}

type presentRow struct {
	id, origin        int64
	active, compacted bool
}

func (h *hermesImport) look(ctx context.Context, id string) (p present, err error) {
	if h.s == nil {
		return p, nil
	}
	err = h.s.file.Read(ctx, func(c *sqlite.Conn) error {
		p, err = readPresent(c, id)
		return err
	})
	return p, err
}

func readPresent(c *sqlite.Conn, id string) (p present, err error) {
	p.rows = map[string]presentRow{}
	if p.exists, err = exists(c, `SELECT 1 FROM sessions WHERE id = ?`, id); err != nil {
		return p, err
	}
	for r, err := range c.Query(`SELECT uid, id, origin_id, active, compacted FROM messages WHERE session_id = ? ORDER BY id`, id) {
		if err != nil {
			return p, err
		}
		p.rows[r.Text(0)] = presentRow{r.Int(1), r.Int(2), r.Bool(3), r.Bool(4)}
		p.last = r.Int(1)
		p.local = p.local || ownUID(r.Text(0))
	}
	p.busy, err = heldBy(c, id)
	return p, err
}

// heldBy says who works on a session now, "" for nobody.
func heldBy(c *sqlite.Conn, id string) (string, error) {
	running, err := runningLeases(c, id, func(Finding) {})
	if err != nil || len(running) == 0 {
		return "", err
	}
	return running[0].Holder.String(), nil
}

// errMeanwhile: somebody wrote to the session since it was looked at.
var errMeanwhile = &problem.Error{Kind: problem.Conflict, Thing: "session", What: "was written to meanwhile", Fate: "its rows were left as they are"}
