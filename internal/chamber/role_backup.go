package chamber

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"gatewayd/internal/sqlite"
)

// backupRole makes backups beside the writers, one after the other, and looks into each: every row that was
// acknowledged before it began is in it once.
func backupRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	a.Say(Event{Event: "ready", Mode: s.File().Journal().Mode})
	for i := 0; err == nil && ctx.Err() == nil; i++ {
		if err = a.backup(ctx, s.File()); err == nil {
			a.Say(Event{Event: "copied", Count: i + 1})
			err = a.rest(ctx)
		}
	}
	return errors.Join(unlessStopped(ctx, err), s.Close())
}

func (a *Actor) backup(ctx context.Context, f *sqlite.File) error {
	before, err := readLedgers(a.Ledgers(), OnStore)
	if err != nil {
		return err
	}
	a.Say(Event{Event: "copying"})
	var made sqlite.Backup
	err = a.through(ctx, func() error {
		made, err = f.Backup(ctx, sqlite.BackupOptions{Dir: filepath.Join(a.Home, "backups"), Keep: 2, Tables: []string{"sessions", "messages"}})
		return err
	})
	if err != nil {
		return err
	}
	copied, err := sqlite.Open(ctx, sqlite.Options{Path: made.File(), Label: "the backup", Journal: sqlite.JournalConfig{Mode: Delete}})
	if err != nil {
		return err
	}
	rows, err := tokensIn(ctx, copied, `SELECT session_id, content FROM messages`)
	for word, e := range before {
		if n := rows[word].times; e.acked && n != 1 && err == nil {
			err = fmt.Errorf("row %s, acknowledged before the backup began, is in it %dx", word, n)
		}
	}
	return errors.Join(err, copied.Close())
}

// snapshotRole makes one copy of the store as it is now, for a fault to put in its place.
func snapshotRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	err = a.through(ctx, func() error { return s.File().Snapshot(ctx, a.StorePath()+".older") })
	return errors.Join(err, s.Close())
}
