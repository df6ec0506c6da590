package sqlite

import (
	"errors"

	"github.com/ncruces/go-sqlite3"
)

// noteDamage latches the first structural corruption. Damage in a virtual table's index (FTS5) is not structural:
// it never costs a row, and its owner rebuilds it; its owner also says what became of damaged pages in it (ErrInIndex).
func (f *File) noteDamage(err error) {
	if err == nil || !hasCode(err) || errors.Is(err, sqlite3.CORRUPT_VTAB) || errors.Is(err, ErrInIndex) {
		return
	}
	if errors.Is(err, sqlite3.READONLY_DBMOVED) { // SQLite itself looked, when it wanted to make its journal
		f.halt(&f.replaced, Replaced, f.path)
		return
	}
	class := ClassOf(err)
	if class == Corrupt || class == NotADatabase {
		f.quarantineDamage(err)
	}
}

func (f *File) quarantineDamage(err error) {
	class := ClassOf(err)
	told := f.explain(err, "nothing more is written to it by this process")
	if f.damage.set(f.ident.main, halt{class: class, file: f.path, err: told}) {
		f.log.Error("database is damaged", "path", f.path, "error", err)
	}
}
