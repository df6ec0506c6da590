package chamber

import (
	"context"
	"errors"

	"gatewayd/internal/sqlite"
)

// ruinScript exchanges the pages of two indexes that no writer of a chamber uses. Every row stays readable, the writers go
// on, and the file is damaged.
const ruinScript = `INSERT OR IGNORE INTO sessions(id, parent, opened_at, last_active) SELECT 'child', id, 1, 1 FROM sessions LIMIT 1;
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET rootpage = (SELECT sum(rootpage) FROM sqlite_schema WHERE name IN ('sessions_parent', 'runs_open')) - rootpage
 WHERE name IN ('sessions_parent', 'runs_open');
PRAGMA writable_schema = RESET;`

// ruinRole damages the structure of the store, and proves it.
func ruinRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	err = a.through(ctx, func() error {
		return s.File().Write(ctx, sqlite.Op{Label: "ruin the store", Do: func(tx *sqlite.Tx) error { return tx.Script(ruinScript) }})
	})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if err := s.Close(); err != nil {
		return err
	}
	var f *sqlite.File
	err = a.through(ctx, func() (err error) {
		f, err = sqlite.Open(ctx, sqlite.Options{Path: a.StorePath(), Label: "state.db"})
		return err
	})
	if err != nil {
		return err
	}
	r := Audit{}
	err = a.through(ctx, func() error { return whole(ctx, f, &r) })
	if err == nil && len(r.Findings) == 0 {
		err = errors.New("the ruined store is whole")
	}
	return errors.Join(err, f.Close())
}

// ruin damages the store, beside whoever has it open.
func ruin() Fault {
	return Fault{Name: "ruin", Do: func(ctx context.Context, s *Stage) error { return s.alone(ctx, Part{Role: "ruin"}) }}
}
