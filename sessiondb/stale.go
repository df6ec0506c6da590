package sessiondb

import (
	"context"
	"errors"
	"fmt"

	"gatewayd/internal/sqlite"
)

// withoutDamagedIndex runs write, and when an index turns out to be damaged takes that index out of use and runs it
// again: damage to an index never costs a row. Each index can fail once.
func (s *Store) withoutDamagedIndex(ctx context.Context, write func() error) error {
	err := write()
	for range indexes {
		bad, ok := errors.AsType[*indexError](err)
		if !ok || !damaged(bad.err) {
			return err
		}
		if marked := s.markStale(ctx, bad.ix, bad.err); marked != nil {
			return errors.Join(err, marked)
		}
		err = write()
	}
	return err
}

// damaged says whether an error of an index means that the index is broken. Locks, a full disk, an ended context and a
// closed file pass by themselves and prove nothing; everything else that only the index can have said does.
func damaged(err error) bool {
	switch sqlite.ClassOf(err) {
	case sqlite.Corrupt, sqlite.Other, sqlite.Constraint:
		return true
	}
	return false
}

// markStale takes an index out of use until the indexer has built it anew.
func (s *Store) markStale(ctx context.Context, ix int, cause error) error {
	why := staleContent
	if sqlite.PageDamage(cause) {
		if err := s.file.Spares(ctx, indexes[ix].table); err != nil {
			return fmt.Errorf("look whether only the index is damaged: %w", err)
		}
		why = stalePages
	}
	s.log.Error("search index damaged, it is rebuilt beside the running daemon and searches scan meanwhile",
		"path", s.file.Path(), "index", indexes[ix].table, "error", cause)
	err := s.file.Write(ctx, sqlite.Op{
		Label: "mark index stale", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error { return indexes[ix].setStale(tx, why) },
	})
	s.work.kick()
	if err != nil {
		return fmt.Errorf("mark index stale: %w", err)
	}
	return nil
}

// recreate drops what is left of an index and makes it empty, in the caller's transaction. A table whose own
// configuration is damaged cannot even be dropped; then its entry is taken out of the schema. Tables with damaged pages are
// not dropped: to free their pages they would be walked through, and a page that lies may lead into another table. Their
// entries go, and the pages stay unused until a vacuum.
func (ix index) recreate(tx *sqlite.Tx) error {
	var why int64
	if _, err := tx.Row(`SELECT v FROM meta WHERE k = ?`, []any{ix.stale}, &why); err != nil {
		return err
	}
	if why == stalePages {
		if err := ix.cutOut(tx, sqlite.ShadowTables[:]...); err != nil {
			return fmt.Errorf("forget damaged index: %w", err)
		}
		return ix.create(tx)
	}
	if err := tx.Script(`DROP TABLE IF EXISTS ` + ix.table); err != nil {
		err = ix.cutOut(tx)
		for _, part := range sqlite.ShadowTables {
			err = firstError(err, tx.Script(`DROP TABLE IF EXISTS `+ix.table+part))
		}
		if err != nil {
			return fmt.Errorf("drop damaged index: %w", err)
		}
	}
	return ix.create(tx)
}

// cutOut takes the index out of the schema, and those of its tables that are named.
func (ix index) cutOut(tx *sqlite.Tx, parts ...string) error {
	names := `'` + ix.table + `'`
	for _, part := range parts {
		names += `, '` + ix.table + part + `'`
	}
	return tx.Script(`PRAGMA writable_schema = ON;
DELETE FROM sqlite_schema WHERE tbl_name IN (` + names + `);
PRAGMA writable_schema = RESET;`)
}
