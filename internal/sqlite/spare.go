package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/mutation"
)

// ErrInIndex is what an error is (errors.Is) that a statement met while it worked in a search index, which can be built
// anew. Damaged pages met there are not taken for damage of the database before File.Spares has looked at the rest.
var ErrInIndex = errors.New("met in a search index")

// PageDamage reports that SQLite found a page of a b-tree damaged. Damage that FTS5 itself found in its own content is
// another thing: there the pages are sound.
func PageDamage(err error) bool {
	return err != nil && ClassOf(err) == Corrupt && !errors.Is(err, sqlite3.CORRUPT_VTAB)
}

// Spares looks whether damage that was met in a search index (an FTS5 table) is in that index alone: it reads every page
// of every other table and of their indexes, on a reader, while writes go on. nil says so. Otherwise the database is in
// quarantine from then on, and the error is the reason. It costs a read of the whole file but for the index, once for a
// damage.
func (f *File) Spares(ctx context.Context, index string) error {
	if mutation.On("index-damage-unchecked") {
		return nil
	}
	bad := ""
	err := f.Read(ctx, func(c *Conn) error {
		tables, err := c.tablesBut(index)
		if err != nil {
			return err
		}
		for _, table := range tables {
			verdict := ""
			if _, err := c.Row(`PRAGMA quick_check('`+strings.ReplaceAll(table, `'`, `''`)+`')`, nil, &verdict); err != nil {
				return err
			}
			if verdict != "ok" {
				bad = table + ": " + verdict
				return nil
			}
		}
		return nil
	})
	if err == nil && bad != "" {
		f.quarantineDamage(classify(Corrupt, "%s", bad))
		err = f.Quarantine()
	}
	return err
}

// tablesBut lists the tables with pages of their own, without those of an FTS5 index.
func (c *Conn) tablesBut(index string) (names []string, err error) {
	for row, err := range c.Query(`SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name`) {
		if err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		if name := row.Text(0); !isShadow(name, index) {
			names = append(names, name)
		}
	}
	return names, nil
}

// ShadowTables are what FTS5 keeps an index in.
var ShadowTables = [...]string{"_data", "_idx", "_content", "_docsize", "_config"}

func isShadow(name, index string) bool {
	for _, part := range ShadowTables {
		if name == index+part {
			return true
		}
	}
	return false
}
