package sqlite

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tableShape is what a walk over the rows of a table needs to know.
type tableShape struct {
	name      string
	columns   []string // those that can be written
	withRowid bool
}

func (c *Conn) tableShape(name string) (tableShape, error) {
	t := tableShape{name: name}
	var wr int
	if _, err := c.Row(`SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?`, []any{name}, &wr); err != nil {
		return t, err
	}
	t.withRowid = wr == 0
	for row, err := range c.Query(`SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0`, name) {
		if err != nil {
			return t, err
		}
		t.columns = append(t.columns, row.Text(0))
	}
	return t, nil
}

// quoted gives the columns as SQL names them.
func (t tableShape) quoted() []string {
	names := make([]string, len(t.columns))
	for i, name := range t.columns {
		names[i] = quote(name)
	}
	return names
}

func (t tableShape) list() string { return strings.Join(t.quoted(), ", ") }

// walkTries bounds the ranges that may fail in one table: a damaged page holds at most some hundred rows, and each is
// looked for on its own.
const walkTries = 200_000

// walkTable visits all rows of a table in ranges of rowids and halves a range that meets damage, down to the single
// row. It gives the number of rows that could be visited. A table without rowids is visited as a whole.
func (c *Conn) walkTable(t tableShape, visit func(t tableShape, low, high int64) (int64, error)) (int64, error) {
	if !t.withRowid {
		n, err := visit(t, math.MinInt64, math.MaxInt64)
		if isDamage(err) {
			return n, nil
		}
		return n, err
	}
	tries := 0
	var walk func(low, high int64) (int64, error)
	walk = func(low, high int64) (int64, error) {
		n, err := visit(t, low, high)
		if !isDamage(err) || tries > walkTries {
			return n, notDamage(err)
		}
		if tries++; low == high {
			return 0, nil
		}
		middle := low + (high-low)/2
		first, err := walk(low, middle)
		if err != nil {
			return first, err
		}
		second, err := walk(middle+1, high)
		return first + second, err
	}
	low, high := c.rowidBounds(t)
	if low > high {
		return 0, nil
	}
	return walk(low, high)
}

// isDamage is what a walk goes around: a page that cannot be read, and a value that its column does not take.
func isDamage(err error) bool {
	class := ClassOf(err)
	return err != nil && hasCode(err) && (class == Corrupt || class == Constraint)
}

func notDamage(err error) error {
	if isDamage(err) {
		return nil
	}
	return err
}

// beyondReadable is how far rowids are looked for past the last known one, where nothing tells the real end.
const beyondReadable = 10_000

// rowidBounds finds the first and the last rowid without trusting one page. Where an end cannot be read an index of
// the table, or the counter of its ids, may know it.
func (c *Conn) rowidBounds(t tableShape) (low, high int64) {
	name := quote(t.name)
	low, high = 1, 0
	if there, err := c.Row("SELECT rowid FROM "+name+" NOT INDEXED ORDER BY rowid LIMIT 1", nil, &low); err != nil {
		low = 1
	} else if !there {
		return 1, 0
	}
	if _, err := c.Row("SELECT rowid FROM "+name+" NOT INDEXED ORDER BY rowid DESC LIMIT 1", nil, &high); err == nil {
		return low, high
	}
	var known int64
	if _, err := c.Row("SELECT seq FROM sqlite_sequence WHERE name = ?", []any{t.name}, &known); err == nil {
		high = max(high, known)
	}
	for row, err := range c.Query("SELECT name FROM pragma_index_list(?) WHERE partial = 0", t.name) {
		if err != nil {
			break
		}
		if _, err := c.Row("SELECT max(rowid) FROM "+name+" INDEXED BY "+quote(row.Text(0)), nil, &known); err == nil {
			high = max(high, known)
		}
	}
	if high == 0 {
		high = low + beyondReadable
	}
	return low, high
}

// countRange reads every byte of the rows in a range.
func (c *Conn) countRange(t tableShape, low, high int64) (n int64, err error) {
	sql := "SELECT " + t.list() + " FROM " + quote(t.name)
	var args []any
	if t.withRowid {
		sql, args = sql+" NOT INDEXED WHERE rowid BETWEEN ? AND ?", []any{low, high}
	}
	for _, err := range c.Query(sql, args...) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// pourInto copies every row that can be read into the tables of another file, and with them the counters of ids. Each
// statement is its own transaction: SQLite lets nothing more be written in one that has met damage.
func (c *Conn) pourInto(path string) error {
	if err := c.control("ATTACH " + text(fileURI(path, "")) + " AS fresh"); err != nil {
		return err
	}
	if _, err := c.pragma("fresh.journal_mode=MEMORY"); err != nil {
		return err
	}
	names, err := c.texts(`SELECT name FROM fresh.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	if err != nil {
		return err
	}
	for _, name := range names {
		t, err := c.tableShape(name)
		if err != nil {
			return fmt.Errorf("salvage %s: %w", name, err)
		}
		if _, err := c.walkTable(t, c.pourRange); err != nil {
			return fmt.Errorf("salvage %s: %w", name, err)
		}
	}
	return c.pourSequence()
}

// pourRange copies a range of rows in one statement, which leaves nothing of the range when it meets damage.
func (c *Conn) pourRange(t tableShape, low, high int64) (int64, error) {
	if !t.withRowid {
		return 0, c.pourBothWays(t)
	}
	name := quote(t.name)
	sql := fmt.Sprintf("INSERT OR IGNORE INTO fresh.%s(rowid, %s) SELECT rowid, %s FROM main.%s NOT INDEXED WHERE rowid BETWEEN ? AND ?",
		name, t.list(), t.list(), name)
	res, err := (&Tx{c}).Exec(sql, low, high)
	return res.Changes, err
}

// pourBothWays takes what can be read from the front and from the back of a table that is its own index.
func (c *Conn) pourBothWays(t tableShape) error {
	keys, err := c.texts(`SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk`, t.name)
	if err != nil {
		return err
	}
	for i, key := range keys {
		keys[i] = quote(key) + " DESC"
	}
	_, err = c.pourRows(t, t.quoted(), "")
	if isDamage(err) {
		_, err = c.pourRows(t, t.quoted(), " ORDER BY "+strings.Join(keys, ", "))
	}
	return notDamage(err)
}

// pourRows copies the rows of a query until it ends or meets damage. A row that is there already, or that the table
// does not take, is left out.
func (c *Conn) pourRows(t tableShape, columns []string, where string, args ...any) (n int64, err error) {
	list, marks := strings.Join(columns, ", "), strings.Repeat(", ?", len(columns))[2:]
	into, err := c.acquire("INSERT OR IGNORE INTO fresh." + quote(t.name) + "(" + list + ") VALUES (" + marks + ")")
	if err != nil {
		return 0, err
	}
	defer c.release(into)
	for row, err := range c.Query("SELECT "+list+" FROM main."+quote(t.name)+where, args...) {
		if err != nil {
			return n, err
		}
		for i := range columns {
			if err := into.s.BindValue(i+1, row.s.ColumnValue(i)); err != nil {
				return n, fmt.Errorf("salvage row: %w", err)
			}
		}
		if err := into.s.Exec(); err != nil && ClassOf(err) != Constraint {
			return n, fmt.Errorf("write salvaged row: %w", &classified{class: IO, err: err})
		}
		n++
	}
	return n, nil
}

// pourSequence carries the counters of ids over, so that an id that was given out is not given out again.
func (c *Conn) pourSequence() error {
	counters := map[string]int64{}
	for row, err := range c.Query(`SELECT name, seq FROM main.sqlite_sequence`) {
		if err != nil { // nothing counts ids here, or it cannot be read: the greatest id that came over counts on
			return nil
		}
		counters[row.Text(0)] = row.Int(1)
	}
	for name, seq := range counters {
		if _, err := (&Tx{c}).Exec(`UPDATE fresh.sqlite_sequence SET seq = max(seq, ?) WHERE name = ?`, seq, name); err != nil {
			return fmt.Errorf("salvage counters: %w", err)
		}
	}
	return nil
}

// freshSchema makes objects of the scratch copy's schema in a new file. Tables come first and empty; what hangs on
// them comes when they are full. The tables behind a virtual table are its own to make.
func (r *repair) freshSchema(path string, kinds ...string) error {
	var script []string
	err := r.onScratch(func(c *Conn) (err error) {
		script, err = c.schemaOf(kinds)
		return err
	})
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	c, err := openPrivate(path, false)
	if err != nil {
		return err
	}
	tx := &Tx{c}
	for _, sql := range script {
		if made := tx.Script(sql); made != nil && !strings.HasPrefix(sql, "CREATE TRIGGER") {
			err = errors.Join(err, made)
		}
	}
	return errors.Join(err, c.close())
}

func (c *Conn) schemaOf(kinds []string) (script []string, err error) {
	virtual, err := c.texts(`SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'`)
	if err != nil {
		return nil, err
	}
	if kinds[0] == "table" {
		if script, err = c.headerPragmas(); err != nil {
			return nil, err
		}
	}
	made := map[string]bool{}
	for _, kind := range kinds {
		for row, err := range c.Query(`SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY rowid`) {
			if err != nil {
				return nil, err
			}
			if kindOfObject(row, virtual) == kind && !made[row.Text(1)] {
				made[row.Text(1)] = true
				script = append(script, row.Text(2))
			}
		}
	}
	return script, nil
}

func kindOfObject(row *Row, virtual []string) string {
	if row.Text(0) != "table" {
		return row.Text(0)
	}
	for _, name := range virtual {
		if row.Text(1) == name {
			return "virtual"
		}
		if strings.HasPrefix(row.Text(1), name+"_") {
			return "shadow"
		}
	}
	return "table"
}

// headerPragmas are what a new file must have from its first page on.
func (c *Conn) headerPragmas() ([]string, error) {
	var script []string
	for _, name := range []string{"page_size", "encoding", "auto_vacuum", "application_id", "user_version"} {
		value, err := c.pragma(name)
		if err != nil {
			return nil, err
		}
		if _, err := strconv.Atoi(value); err != nil {
			value = text(value)
		}
		script = append(script, "PRAGMA "+name+" = "+value)
	}
	return script, nil
}

func (c *Conn) texts(sql string, args ...any) ([]string, error) {
	var all []string
	for row, err := range c.Query(sql, args...) {
		if err != nil {
			return all, err
		}
		all = append(all, row.Text(0))
	}
	return all, nil
}

// text is a literal of SQL.
func text(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
