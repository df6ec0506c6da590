package sqlite

import (
	"errors"

	"github.com/ncruces/go-sqlite3"
)

// noteDamage latches the first structural corruption. Damage in a virtual table's index (FTS5) is not structural:
// it never costs a row, and its owner rebuilds it.
func (f *File) noteDamage(err error) {
	if err == nil || !hasCode(err) || errors.Is(err, sqlite3.CORRUPT_VTAB) {
		return
	}
	class := ClassOf(err)
	if class != Corrupt && class != NotADatabase {
		return
	}
	told := f.explain(err, "nothing more is written through this handle")
	if f.damage.CompareAndSwap(nil, &halt{class: class, err: told}) {
		f.log.Error("database is damaged", "path", f.path, "error", err)
	}
}
