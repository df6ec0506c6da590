package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
)

// strategy is one way to mend the scratch copy. One that does not apply says so with an error.
type strategy struct {
	name string
	run  func() error
}

var errNoIndex = errors.New("this kind of file has no search index")

// strategies go from the one that touches least to the one that keeps nothing but rows.
func (r *repair) strategies() []strategy {
	return []strategy{
		{"rebuild search index", func() error { return r.onScratch(r.indexed(r.o.RebuildIndex)) }},
		{"reindex", func() error { return r.onScratch(func(c *Conn) error { return c.control("REINDEX") }) }},
		{"drop duplicate schema rows", func() error { return r.onScratch(dropDuplicateSchema) }},
		{"make indexes anew", r.remakeIndexes},
		{"drop and rebuild search index", r.remakeSearch},
		{"copy what can be read", r.salvage},
	}
}

// openScratch opens a copy of our own as any program would.
func openScratch(path string) (*Conn, error) { return openPrivate(path, false) }

// openPrivate opens a copy that nobody else knows. With mending the schema is taken as far as it can be read and its
// table may be written. Nothing is synced: what is promoted is written and synced there.
func openPrivate(path string, mending bool) (*Conn, error) {
	db, err := sqlite3.OpenFlags(fileURI(path, ""), sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE|sqlite3.OPEN_URI)
	if err != nil {
		return nil, fmt.Errorf("open scratch: %w", err)
	}
	c := &Conn{db: db, stmts: map[string]*stmt{}, own: map[string]*stmt{}}
	settings := []string{"synchronous=OFF", "foreign_keys=OFF", "trusted_schema=OFF", "cell_size_check=ON", "temp_store=0"}
	if mending {
		settings = append([]string{"writable_schema=ON"}, settings...)
	}
	for _, text := range settings {
		if _, err := c.pragma(text); err != nil {
			return nil, errors.Join(fmt.Errorf("open scratch: %w", err), c.close())
		}
	}
	if err := fts5.Register(db); err != nil {
		return nil, errors.Join(fmt.Errorf("register fts5: %w", err), c.close())
	}
	return c, nil
}

// onScratch works on the scratch copy through a connection of its own, so that the next one reads the schema anew.
func (r *repair) onScratch(do func(*Conn) error) error {
	c, err := openPrivate(r.scratch, true)
	if err != nil {
		return err
	}
	err = do(c)
	return errors.Join(err, c.rollback(), c.close())
}

// indexed makes a step of the search index one transaction.
func (r *repair) indexed(step func(*Tx) error) func(*Conn) error {
	return func(c *Conn) error {
		if step == nil {
			return errNoIndex
		}
		if err := c.control(sqlBegin); err != nil {
			return err
		}
		if err := step(&Tx{c}); err != nil {
			return err
		}
		return c.control(sqlCommit)
	}
}

func (r *repair) recreateIndex(c *Conn) error {
	if err := r.indexed(r.o.RecreateIndex)(c); err != nil {
		return err
	}
	if err := c.control("VACUUM"); err != nil {
		return err
	}
	if r.o.RebuildIndex == nil {
		return nil
	}
	return r.indexed(r.o.RebuildIndex)(c)
}

// remakeIndexes forgets indexes whose pages cannot even be given back and makes them from the rows. The pages that
// nobody names any more go with the vacuum.
func (r *repair) remakeIndexes() error {
	var script []string
	err := r.onScratch(func(c *Conn) (err error) {
		if script, err = c.texts(`SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY rowid`); err != nil {
			return err
		}
		return c.forgetSchema(`type = 'index' AND sql IS NOT NULL`)
	})
	if err != nil {
		return err
	}
	return r.onScratch(func(c *Conn) error {
		for _, sql := range script {
			if err := (&Tx{c}).Script(sql); err != nil {
				return err
			}
		}
		return c.control("VACUUM")
	})
}

// remakeSearch lets the owner drop and make its search indexes, and where they cannot be dropped forgets them first.
func (r *repair) remakeSearch() error {
	if r.o.RecreateIndex == nil {
		return errNoIndex
	}
	if err := r.onScratch(r.recreateIndex); err == nil {
		return nil
	}
	err := r.onScratch(func(c *Conn) error {
		virtual, err := c.texts(`SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'`)
		if err != nil {
			return err
		}
		for _, name := range virtual {
			like := strings.NewReplacer(`\`, `\\`, "_", `\_`, "%", `\%`).Replace(name) + `\_%`
			if err := c.forgetSchema(`type = 'table' AND (name = ` + text(name) + ` OR name LIKE ` + text(like) + ` ESCAPE '\')`); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.onScratch(r.recreateIndex)
}

func (c *Conn) forgetSchema(where string) error {
	if err := (&Tx{c}).Script(`DELETE FROM sqlite_schema WHERE ` + where); err != nil {
		return fmt.Errorf("forget schema rows: %w", err)
	}
	return nil
}

// dropDuplicateSchema keeps the first of each name: the other came from a second writer that did not see it.
func dropDuplicateSchema(c *Conn) error {
	if err := c.forgetSchema(`rowid NOT IN (SELECT min(rowid) FROM sqlite_schema GROUP BY type, name)`); err != nil {
		return err
	}
	if c.db.Changes() == 0 {
		return errors.New("the schema has no duplicate row")
	}
	return nil
}

// readable counts the rows that can be read to their last byte, in the copy of what was there before.
func (r *repair) readable() (map[string]int64, error) {
	counts := map[string]int64{}
	return counts, r.onScratch(func(c *Conn) error {
		for _, name := range r.o.Tables {
			t, err := c.tableShape(name)
			if err != nil || len(t.columns) == 0 {
				continue // not there, or nothing of it can be read
			}
			n, err := c.walkTable(t, c.countRange)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			counts[name] = n
		}
		return nil
	})
}

// salvage writes every row that can be read into a new file, and puts that in the scratch copy's place.
func (r *repair) salvage() error {
	fresh := r.scratch + ".new"
	os.Remove(fresh)
	if err := r.freshSchema(fresh, "table"); err != nil {
		return err
	}
	if err := r.onScratch(func(c *Conn) error { return c.pourInto(fresh) }); err != nil {
		return err
	}
	if err := r.freshSchema(fresh, "index", "view", "trigger", "virtual"); err != nil {
		return err
	}
	if err := os.Rename(fresh, r.scratch); err != nil {
		return err
	}
	return r.onScratch(func(c *Conn) error {
		if r.o.RecreateIndex == nil {
			return nil
		}
		return r.recreateIndex(c)
	})
}
