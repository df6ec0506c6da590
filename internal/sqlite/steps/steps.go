// Package steps lets a test end a process before any SQL statement it chooses. It owns nothing and ships nothing: only
// processes that tests start for being killed call it.
package steps

import (
	"strings"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
)

// Each has f called ahead of every statement, with its text, on every connection that this process opens from now on. f
// runs in the middle of the connection's work, with whatever locks it holds; when it does not return, nothing of the
// statement is done. What SQLite runs for itself (triggers, the tables of a full-text index) is a part of the statement
// that asked for it. It cannot be undone. f may be called by several goroutines at once.
func Each(f func(sql string)) {
	sqlite3.AutoExtension(func(c *sqlite3.Conn) error {
		return c.Trace(sqlite3.TRACE_STMT, func(_ sqlite3.TraceEvent, _, sql any) error {
			if text, ok := sql.(string); ok {
				f(strings.Join(strings.Fields(text), " "))
			}
			return nil
		})
	})
}

// Stop halts one statement for good, and with it whoever waits for it.
type Stop struct{ armed atomic.Bool }

// Before halts the process ahead of the n-th change to a file after Arm, and tells say what it is. n 0 halts nothing. An UPDATE or a
// DELETE that follows itself counts once: SQLite tells of it anew for each row for which it sets off a trigger.
func Before(n int64, say func(sql string)) *Stop {
	var s Stop
	var count atomic.Int64
	var last atomic.Value
	Each(func(sql string) {
		before := last.Swap(sql)
		again := before == sql && (strings.HasPrefix(sql, "UPDATE ") || strings.HasPrefix(sql, "DELETE "))
		if s.armed.Load() && changes(sql) && !again && count.Add(1) == n {
			say(sql)
			select {}
		}
	})
	return &s
}

// Arm begins to count.
func (s *Stop) Arm() { s.armed.Store(true) }

// changes leaves out what only reads: a process killed ahead of it leaves what one killed ahead of the next change leaves.
func changes(sql string) bool {
	word, rest, _ := strings.Cut(sql, " ")
	switch word {
	case "SELECT", "SAVEPOINT", "RELEASE", "ROLLBACK":
		return false
	case "BEGIN":
		return rest != "DEFERRED"
	case "PRAGMA":
		name, _, set := strings.Cut(strings.ReplaceAll(rest, " ", ""), "=")
		return set && (name == "journal_mode" || name == "user_version" || name == "application_id")
	}
	return true
}
