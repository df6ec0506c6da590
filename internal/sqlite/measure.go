package sqlite

import "github.com/ncruces/go-sqlite3"

// Cost runs fn and counts the steps that SQLite's virtual machine took for the statements of this connection meanwhile:
// what a query costs, without the noise of a clock. Steps of a statement that a loop around it uses too are not counted.
func (c *Conn) Cost(fn func() error) (steps int64, err error) {
	c.machineSteps()
	err = fn()
	return c.machineSteps(), err
}

// machineSteps sums up and resets the counters of the prepared statements.
func (c *Conn) machineSteps() (n int64) {
	for _, st := range c.stmts {
		n += int64(st.s.Status(sqlite3.STMTSTATUS_VM_STEP, true))
	}
	return n
}

// LimitVariables lowers how many parameters a statement of this connection may have and returns what it was before. Other
// programs' SQLite allows 999; a test proves with it that long lists are not handed over one parameter each.
func (c *Conn) LimitVariables(most int) (before int) {
	return c.db.Limit(sqlite3.LIMIT_VARIABLE_NUMBER, most)
}
