package sessiondb

import (
	"context"
	"fmt"

	"gatewayd/internal/sqlite"
)

// store audits what belongs to no single session.
func (v *verifier) store(ctx context.Context) error {
	checks := []func(*sqlite.Conn, func(Finding)) error{orphans, marksAgree}
	if v.o.Deep {
		checks = append(checks, strangersWithOneUID)
	}
	if !v.o.RowsOnly {
		checks = append(checks, structure(v.o.Deep))
	}
	for _, check := range checks {
		var found []Finding
		err := v.s.file.Read(ctx, func(c *sqlite.Conn) error {
			found = nil
			return check(c, func(f Finding) { found = append(found, f) })
		})
		if corrupt(err) {
			found, err = append(found, structureFinding("a table cannot be read")), nil
		}
		if err != nil {
			return fmt.Errorf("verify store: %w", err)
		}
		for _, f := range found {
			v.report(f)
		}
	}
	return nil
}

// orphans finds rows of every table whose session, prompt or parent is not there. A table without row ids has none to name.
func orphans(c *sqlite.Conn, report func(Finding)) error {
	for r, err := range c.Query(`SELECT "table", rowid, parent FROM pragma_foreign_key_check`) {
		if err != nil {
			return err
		}
		f := Finding{
			Code: "orphan_" + r.Text(0), Level: Damage, What: fmt.Sprintf("has a row of %s without its row of %s", r.Text(0), r.Text(2)),
			Remedy: "it is in nobody's way; compare with a backup to learn what is missing",
		}
		if r.Text(0) == "messages" {
			f.Row = r.Int(1)
		}
		report(f)
	}
	return nil
}

// marksAgree compares each search index with the rows below its mark.
func marksAgree(c *sqlite.Conn, report func(Finding)) error {
	last := int64(0)
	if _, err := c.Row(`SELECT seq FROM sqlite_sequence WHERE name = 'messages'`, nil, &last); err != nil {
		return err
	}
	for _, ix := range indexes {
		mark, stale, err := ix.readMark(c)
		if err != nil {
			return err
		}
		if stale {
			report(Finding{Code: "index_stale", Level: Notice, What: "has the search index " + ix.table + " out of use", Remedy: "the daemon rebuilds it; searches scan meanwhile"})
			continue
		}
		if mark > last {
			report(ix.finding("index_mark_ahead", fmt.Sprintf("has its mark at row %d and the last row ever was %d", mark, last)))
		}
		var docs, rows int64
		if _, err := c.Row(`SELECT count(*) FROM `+ix.table+`_docsize`, nil, &docs); err != nil {
			return err
		}
		if _, err := c.Row(`SELECT count(*) FROM `+ix.view, nil, &rows); err != nil {
			return err
		}
		if docs != rows {
			report(ix.finding("index_differs", fmt.Sprintf("holds %d documents for %d rows", docs, rows)))
		}
	}
	return nil
}

func (ix index) finding(code, what string) Finding {
	return Finding{Code: code, Level: Damage, What: "has the search index " + ix.table + ", which " + what, Remedy: "rebuild it: gatewayd repair state"}
}

func strangersWithOneUID(c *sqlite.Conn, report func(Finding)) error {
	for r, err := range c.Query(`SELECT uid, min(id), max(id) FROM messages NOT INDEXED GROUP BY uid HAVING count(*) > 1`) {
		if err != nil {
			return err
		}
		report(Finding{
			Code: "uid_twice", Level: Damage, Row: r.Int(2), What: fmt.Sprintf("has two rows with the uid %s, %d and %d", r.Text(0), r.Int(1), r.Int(2)),
			Remedy: remedyBackup,
		})
	}
	return nil
}

// structureLines bounds what one check says; a file that is damaged is damaged.
const structureLines = 20

func structure(deep bool) func(*sqlite.Conn, func(Finding)) error {
	pragma := "quick_check"
	if deep {
		pragma = "integrity_check"
	}
	return func(c *sqlite.Conn, report func(Finding)) error {
		lookAnew(c)
		for r, err := range c.Query(fmt.Sprintf(`PRAGMA %s(%d)`, pragma, structureLines)) {
			if err != nil {
				return err
			}
			if line := r.Text(0); line != "ok" {
				report(structureFinding(line))
			}
		}
		return nil
	}
}

// lookAnew has a connection forget what it knew of the indexes. A check alone does not: it goes by the segments that the
// connection saw last, and calls those that were merged since corrupt. A damaged index is the check's to report.
func lookAnew(c *sqlite.Conn) {
	for _, ix := range indexes {
		var id int64
		_, _ = c.Row(`SELECT rowid FROM `+ix.table+` LIMIT 1`, nil, &id)
	}
}

func structureFinding(line string) Finding {
	return Finding{Code: "structure", Level: Damage, What: "is damaged: " + line, Remedy: "stop what uses it, then gatewayd repair state, or restore a backup"}
}
