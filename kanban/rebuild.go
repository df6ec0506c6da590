package kanban

import (
	"strings"

	"gatewayd/internal/sqlite"
)

// rebuildDrifted gives the tables whose cursor was once declared TEXT the type that ids need: rename, create, copy, drop.
// Unknown columns come across, and so does every index that stood on the table. A cursor that is no number becomes 0, an
// id that is none gets a new one after all that are.
func rebuildDrifted(tx *sqlite.Tx, l layout) error {
	for _, t := range schemaTables() {
		if !l.drifted(t) {
			continue
		}
		if err := rebuild(tx, t); err != nil {
			return err
		}
	}
	return nil
}

func rebuild(tx *sqlite.Tx, t table) error {
	extra, err := extraColumns(tx, t)
	if err != nil {
		return err
	}
	indexes, err := texts(tx.Conn, `SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL`, t.name)
	if err != nil {
		return err
	}
	legacy := t.name + "_legacy"
	whole := t
	whole.columns = append(append([]column(nil), t.columns...), extra...)
	script := append([]string{"ALTER TABLE " + t.name + " RENAME TO " + legacy, whole.createSQL()}, copySQL(whole, legacy)...)
	script = append(append(script, "DROP TABLE "+legacy), indexes...)
	for _, sql := range script {
		if err := apply(tx, sql); err != nil {
			return err
		}
	}
	return nil
}

// extraColumns are those that a fork or a later Hermes added.
func extraColumns(tx *sqlite.Tx, t table) ([]column, error) {
	known := map[string]bool{}
	for _, c := range t.columns {
		known[c.name] = true
	}
	var extra []column
	for row, err := range tx.Query(`SELECT name, type, "notnull", dflt_value FROM pragma_table_info(?)`, t.name) {
		if err != nil {
			return nil, err
		}
		if known[row.Text(0)] {
			continue
		}
		c := column{name: quoteName(row.Text(0)), decl: row.Text(1)}
		if row.Bool(2) {
			c.decl += " NOT NULL"
		}
		if !row.Null(3) {
			c.decl += " DEFAULT " + row.Text(3)
		}
		extra = append(extra, c)
	}
	return extra, nil
}

// copySQL copies rows whose id is a number under that id, then the others under new ones. A table whose cursor is not its
// id is copied at once.
func copySQL(t table, from string) []string {
	number := "CAST(CAST(" + t.cursor + " AS INTEGER) AS TEXT) = CAST(" + t.cursor + " AS TEXT)"
	if t.cursor != "id" {
		return []string{insertSelect(t, from, "CASE WHEN "+number+" THEN CAST("+t.cursor+" AS INTEGER) ELSE 0 END", "1")}
	}
	return []string{
		insertSelect(t, from, "CAST(id AS INTEGER)", number),
		insertSelect(t, from, "NULL", "NOT ("+number+") OR id IS NULL"),
	}
}

func insertSelect(t table, from, cursor, where string) string {
	names, values := make([]string, len(t.columns)), make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i], values[i] = c.name, c.name
		if c.name == t.cursor {
			values[i] = cursor
		}
	}
	return "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") +
		" FROM " + from + " WHERE " + where + " ORDER BY rowid"
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
