package sessiondb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// Two processes that build the same index anew would undo and redo each other's work, and both would keep writers
// waiting. So whoever builds one holds a ticket, a row of meta that each of its steps renews in its own transaction. The
// ticket of a process that died, or that was silent for rebuildTTL, goes to the next one, which goes on at the mark.
const (
	rebuildTicket = "index_rebuild"
	rebuildTTL    = time.Minute
	rebuildPoll   = time.Second // how often one that was not admitted asks again
)

// errDeferred: another process builds an index anew. Searches scan meanwhile, so nothing is missed.
var errDeferred = errors.New("another process rebuilds a search index")

// ticket is the right to build indexes anew.
type ticket struct {
	Token   string   `json:"token"` // of the store that holds it
	Holder  Holder   `json:"holder"`
	Expires int64    `json:"expires"` // microseconds
	Tables  []string `json:"tables"`  // the indexes that it has begun and not finished
}

func readTicket(c *sqlite.Conn) (ticket, error) {
	var out ticket
	var row string
	found, err := c.Row(`SELECT v FROM meta WHERE k = ?`, []any{rebuildTicket}, &row)
	if err != nil || !found {
		return out, err
	}
	if err := json.Unmarshal([]byte(row), &out); err != nil {
		return ticket{}, nil // nobody can hold what nobody can read
	}
	return out, nil
}

// runs reports that its holder may still be at work. Like a lease, it holds for no longer than its clock allows.
func (t ticket) runs(now time.Time) bool {
	left := time.UnixMicro(t.Expires).Sub(now)
	return t.Token != "" && left > 0 && left <= rebuildTTL && !t.Holder.Dead()
}

// admit lets a step through: at once when it only follows the rows, with the ticket when it is part of a rebuild.
func (s *Store) admit(tx *sqlite.Tx, ix index) error {
	held, err := readTicket(tx.Conn)
	if err != nil {
		return err
	}
	_, stale, err := ix.readMark(tx.Conn)
	begun := slices.Contains(held.Tables, ix.table)
	if err != nil || !stale && !begun {
		return err
	}
	now := time.Now()
	if held.Token != s.work.token && held.runs(now) && !mutation.On("rebuild-without-admission") {
		return errDeferred
	}
	if !begun {
		held.Tables = append(held.Tables, ix.table)
	}
	if held.Holder, err = SelfHolder("indexer"); err != nil {
		return err
	}
	held.Token, held.Expires = s.work.token, now.Add(rebuildTTL).UnixMicro()
	return held.write(tx)
}

// rebuilds reports an index that is stale or being built anew. A search leaves it alone: a step of a rebuild that nobody
// goes on with would keep everybody else from it for rebuildTTL.
func (s *Store) rebuilds(ctx context.Context, i int) (does bool) {
	_ = s.file.Read(ctx, func(c *sqlite.Conn) error {
		held, err := readTicket(c)
		if err != nil {
			return err
		}
		_, stale, err := indexes[i].readMark(c)
		does = stale || slices.Contains(held.Tables, indexes[i].table)
		return err
	})
	return does
}

// finished takes an index that has all rows off the ticket, in the transaction of its last chunk.
func (s *Store) finished(tx *sqlite.Tx, ix index) error {
	held, err := readTicket(tx.Conn)
	if err != nil || held.Token != s.work.token {
		return err
	}
	held.Tables = slices.DeleteFunc(held.Tables, func(table string) bool { return table == ix.table })
	return held.write(tx)
}

func (t ticket) write(tx *sqlite.Tx) error {
	if len(t.Tables) == 0 {
		_, err := tx.Exec(`DELETE FROM meta WHERE k = ?`, rebuildTicket)
		return err
	}
	row, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("write ticket: %w", err)
	}
	_, err = tx.Exec(`INSERT OR REPLACE INTO meta(k, v) VALUES(?, ?)`, rebuildTicket, string(row))
	return err
}

// advance is one step of an index, if it is admitted.
func (s *Store) advance(tx *sqlite.Tx, ix index, budget int64) (more bool, err error) {
	if err := s.admit(tx, ix); err != nil {
		return false, err
	}
	if more, err = ix.advance(tx, budget); err != nil || more {
		return more, err
	}
	return false, s.finished(tx, ix)
}
