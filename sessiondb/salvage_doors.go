package sessiondb

import (
	"context"
	"fmt"

	"gatewayd/internal/sqlite"
)

// lostDoors are what the HTTP API had promised to remember in sessions that are here: responses, and runs with their events.
const (
	lostResponses = `SELECT ` + responseColumns + ` FROM responses ORDER BY created_at, id`
	takeResponse  = `INSERT INTO responses(` + responseColumns + `) SELECT ?1, ?2, ?3, ?4, ?5, ?6,
 coalesce((SELECT max(id) FROM messages WHERE session_id = ?2 AND turn_id = ?6), ?7), ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16
 WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?2) ON CONFLICT(id) DO NOTHING`
	lostRuns = `SELECT ` + runColumns + ` FROM runs ORDER BY created_at, id`
	takeRun  = `INSERT INTO runs(` + runColumns + `) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15
 WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?2) ON CONFLICT(id) DO NOTHING`
	lostEvents = `SELECT seq, name, body, created_at FROM run_events WHERE run_id = ? ORDER BY seq`
)

// doors brings back responses and runs that a client was given the names of. What is here is as new or newer and stays.
func (sv *salvage) doors(ctx context.Context) error {
	var responses, runs [][]any
	events := map[string][][]any{}
	err := sv.from.file.Read(ctx, func(c *sqlite.Conn) (err error) {
		if responses, err = rowsOf(c, 16, lostResponses); err != nil {
			return err
		}
		if runs, err = rowsOf(c, 15, lostRuns); err != nil {
			return err
		}
		for _, run := range runs {
			id, _ := run[0].(string)
			if events[id], err = rowsOf(c, 4, lostEvents, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || sv.out.DryRun || len(responses)+len(runs) == 0 {
		return during("read runs and responses", err)
	}
	err = sv.s.file.Write(ctx, sqlite.Op{
		Label: "salvage runs and responses", Patience: sqlite.Transcript,
		Do: func(tx *sqlite.Tx) error {
			for _, response := range responses {
				if _, err := tx.Exec(takeResponse, response...); err != nil {
					return fmt.Errorf("response %v: %w", response[0], err)
				}
			}
			for _, run := range runs {
				id, _ := run[0].(string)
				if err := takeRunBack(tx, run, events[id]); err != nil {
					return fmt.Errorf("run %s: %w", id, err)
				}
			}
			return nil
		},
		Done: func(*sqlite.Conn) (bool, error) { return false, nil },
	})
	if sqlite.IsCommitted(err) {
		err = nil
	}
	return during("runs and responses", err)
}

func takeRunBack(tx *sqlite.Tx, run []any, events [][]any) error {
	res, err := tx.Exec(takeRun, run...)
	if err != nil || res.Changes == 0 {
		return err
	}
	for _, e := range events {
		if _, err := tx.Exec(putRunEvent, append([]any{run[0]}, e...)...); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf reads rows as they are, texts and numbers.
func rowsOf(c *sqlite.Conn, columns int, query string, args ...any) (out [][]any, err error) {
	for r, err := range c.Query(query, args...) {
		if err != nil {
			return nil, err
		}
		row := make([]any, columns)
		for i := range row {
			row[i] = r.Any(i)
		}
		out = append(out, row)
	}
	return out, nil
}
