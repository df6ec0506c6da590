package chamber

import (
	"context"
	"errors"
	"time"

	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// indexerRole follows the rows with the search indexes, as the daemon does.
func indexerRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	a.Say(Event{Event: "ready", Mode: s.File().Journal().Mode})
	err = s.RunIndexer(ctx)
	return errors.Join(err, s.Close())
}

// staleSQL takes both indexes out of use, as a search does that finds one damaged.
const staleSQL = `INSERT OR REPLACE INTO meta(k, v) VALUES('fts_mark', 0), ('fts_stale', 1), ('tri_mark', 0), ('tri_stale', 1)`

// rebuildRole makes the search indexes anew, again and again, beside whoever else does.
func rebuildRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	a.Say(Event{Event: "ready", Mode: s.File().Journal().Mode})
	for i := 0; err == nil && ctx.Err() == nil; i++ {
		err = a.through(ctx, func() error {
			return s.File().Write(ctx, sqlite.Op{Label: "mark indexes stale", Do: func(tx *sqlite.Tx) error {
				_, err := tx.Exec(staleSQL)
				return err
			}})
		})
		if err == nil {
			a.Say(Event{Event: "rebuilding", Count: i + 1})
			err = a.through(ctx, func() error { return s.WaitIndexed(ctx) })
		}
		if err == nil {
			a.Say(Event{Event: "rebuilt", Count: i + 1})
			err = a.pause(ctx, 500*time.Millisecond)
		}
	}
	return errors.Join(unlessStopped(ctx, err), s.Close())
}

// damageRole overwrites blocks of an index, once, and searches until the store has noticed.
func damageRole(ctx context.Context, a *Actor) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	a.Say(Event{Event: "ready", Mode: s.File().Journal().Mode})
	blocks := 0
	err = a.through(ctx, func() error {
		return s.File().Write(ctx, sqlite.Op{Label: "damage the index", Do: func(tx *sqlite.Tx) error {
			res, err := tx.Exec(`UPDATE messages_fts_data SET block = zeroblob(length(block)) WHERE id > 10`)
			blocks = int(res.Changes)
			return err
		}})
	})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	a.Say(Event{Event: "damaged", Count: blocks})
	for err == nil && ctx.Err() == nil {
		err = a.through(ctx, func() error {
			_, err := s.Search(ctx, sessiondb.Query{Text: "fox", Limit: 3, Sort: sessiondb.Relevance})
			return err
		})
		if err == nil {
			a.Say(Event{Event: "searched"})
			err = a.rest(ctx)
		}
	}
	return errors.Join(unlessStopped(ctx, err), s.Close())
}
