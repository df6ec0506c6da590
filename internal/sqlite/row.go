package sqlite

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// Row is the row a query stands on. It is valid until the loop goes on; everything it returns is a copy.
type Row struct{ s *sqlite3.Stmt }

// Text gives a column as text, NULL as "". Invalid UTF-8 becomes U+FFFD: a bad byte written by a peer must not
// fail a whole list.
func (r *Row) Text(i int) string {
	text := r.s.ColumnText(i)
	if utf8.ValidString(text) { // much faster than ToValidUTF8, and nearly always true
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Int gives a column as an integer, NULL as 0. Text is read the way SQLite casts it, for old files that keep
// numbers as text.
func (r *Row) Int(i int) int64 { return r.s.ColumnInt64(i) }

// Float gives a column as a float, NULL as 0.
func (r *Row) Float(i int) float64 { return r.s.ColumnFloat(i) }

// Bool gives a column as a truth value: everything but 0 and NULL is true.
func (r *Row) Bool(i int) bool { return r.s.ColumnBool(i) }

// Bytes gives a copy of a column's bytes, NULL as nil.
func (r *Row) Bytes(i int) []byte {
	if r.Null(i) {
		return nil
	}
	return r.s.ColumnBlob(i, []byte{})
}

// Null reports whether a column is NULL.
func (r *Row) Null(i int) bool { return r.s.ColumnType(i) == sqlite3.NULL }

// OptText gives a column as text, NULL as nil.
func (r *Row) OptText(i int) *string {
	if r.Null(i) {
		return nil
	}
	return new(r.Text(i))
}

// OptInt gives a column as an integer, NULL as nil.
func (r *Row) OptInt(i int) *int64 {
	if r.Null(i) {
		return nil
	}
	return new(r.Int(i))
}

// Any gives a column as what it is: nil, int64, float64, string or []byte.
func (r *Row) Any(i int) any {
	switch r.s.ColumnType(i) {
	case sqlite3.INTEGER:
		return r.Int(i)
	case sqlite3.FLOAT:
		return r.Float(i)
	case sqlite3.TEXT:
		return r.Text(i)
	case sqlite3.BLOB:
		return r.Bytes(i)
	}
	return nil
}

// Columns gives the names of the columns in order.
func (r *Row) Columns() []string {
	names := make([]string, r.s.ColumnCount())
	for i := range names {
		names[i] = r.s.ColumnName(i)
	}
	return names
}

// scan copies the row into dest, one pointer per column.
func (r *Row) scan(dest []any) error {
	if have := r.s.ColumnCount(); have != len(dest) {
		return fmt.Errorf("scan row: %d columns into %d destinations", have, len(dest))
	}
	for i, d := range dest {
		if err := r.scanOne(i, d); err != nil {
			return err
		}
	}
	return nil
}

func (r *Row) scanOne(i int, dest any) error {
	switch d := dest.(type) {
	case *string:
		*d = r.Text(i)
	case *int64:
		*d = r.Int(i)
	case *int:
		*d = int(r.Int(i))
	case *bool:
		*d = r.Bool(i)
	case *float64:
		*d = r.Float(i)
	case *[]byte:
		*d = r.Bytes(i)
	case **string:
		*d = r.OptText(i)
	case **int64:
		*d = r.OptInt(i)
	default:
		return fmt.Errorf("scan column %d: type %T is not one of the plain pointers", i, dest)
	}
	return nil
}
