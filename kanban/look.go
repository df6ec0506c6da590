package kanban

import (
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
)

// Look is what a board's file holds, read without opening the board: from a copy, for the doctor.
type Look struct {
	Foreign string   // why it is no board; nothing else is known then
	Missing []string // tables, columns and indexes of the newest format that the file lacks: the next open adds them
	Tasks   int64
	Runs    int64
	Last    time.Time // when the newest event was written; zero without one
}

// LookAt reads a file. It writes nothing.
func LookAt(c *sqlite.Conn) (Look, error) {
	l, err := readLayout(c)
	if err != nil {
		return Look{}, err
	}
	look := Look{Foreign: l.foreign(), Missing: l.missing()}
	if look.Foreign != "" || l.empty() {
		return look, nil
	}
	var last *int64
	for _, q := range []struct {
		table, sql string
		dest       []any
	}{
		{"tasks", `SELECT count(*) FROM tasks`, []any{&look.Tasks}},
		{"task_runs", `SELECT count(*) FROM task_runs`, []any{&look.Runs}},
		{"task_events", `SELECT max(created_at) FROM (SELECT created_at FROM task_events ORDER BY rowid DESC LIMIT 1)`, []any{&last}},
	} {
		if l.types[q.table] == nil {
			continue
		}
		if _, err := c.Row(q.sql, nil, q.dest...); err != nil {
			return look, fmt.Errorf("count rows of %s: %w", q.table, err)
		}
	}
	if last != nil {
		look.Last = time.Unix(*last, 0)
	}
	return look, nil
}

// missing lists what current asks for and the file has not.
func (l layout) missing() (lacks []string) {
	if l.empty() {
		return nil
	}
	for _, t := range schemaTables() {
		if l.types[t.name] == nil {
			lacks = append(lacks, t.name)
			continue
		}
		for _, c := range t.columns {
			if !l.has(t.name, c.name) {
				lacks = append(lacks, t.name+"."+c.name)
			}
		}
	}
	for _, i := range schemaIndexes() {
		if !l.indexes[i.name] {
			lacks = append(lacks, i.name)
		}
	}
	return lacks
}

// ProbeWrite writes a card and an event as a worker would, for a transaction that is taken back.
func ProbeWrite(tx *sqlite.Tx) error { return probe(tx) }
