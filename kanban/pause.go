package kanban

import (
	"context"
	"slices"
	"strings"

	"gatewayd/internal/sqlite"
)

// Pause says that a board starts no card until somebody resumes it. Workers that run go on; cards are created, promoted
// and woken as ever. It is in the board's file, so it survives a restart and binds every gatewayd. A Hermes dispatcher does
// not know of it.
type Pause struct {
	Mode   string `json:"mode"` // PauseStarts or PauseDrain
	Reason string `json:"reason"`
	By     string `json:"by"`
	Since  int64  `json:"since"` // epoch seconds
}

// The modes: both keep cards from starting. A drain says besides that the board is to become empty, so that people and
// programs can wait for it.
const (
	PauseStarts = "pause"
	PauseDrain  = "drain"
)

// gwPauseTable holds one row while the board starts no cards.
var gwPauseTable = table{name: "gw_pause", columns: []column{
	{name: "slot", decl: "INTEGER PRIMARY KEY"},
	{name: "mode", decl: "TEXT NOT NULL"},
	{name: "reason", decl: "TEXT NOT NULL DEFAULT ''"},
	{name: "paused_by", decl: "TEXT NOT NULL DEFAULT ''"},
	{name: "since", decl: "INTEGER NOT NULL DEFAULT 0"},
}}

const (
	selectPause = `SELECT p.mode, p.reason, p.paused_by, p.since FROM gw_pause p WHERE p.slot = 1`
	setPause    = `INSERT INTO gw_pause (slot, mode, reason, paused_by, since) VALUES (1, ?, ?, ?, ?)
ON CONFLICT (slot) DO UPDATE SET mode = excluded.mode, reason = excluded.reason, paused_by = excluded.paused_by, since = excluded.since`
	clearPause = `DELETE FROM gw_pause`
)

// Pause stops the board's starts; a pause that is there is replaced, its time too. Since is set here where it is 0.
func (b *Board) Pause(ctx context.Context, p Pause) error {
	if !slices.Contains([]string{PauseStarts, PauseDrain}, p.Mode) {
		return invalid("pause mode "+quote(p.Mode), "is not known", "use pause or drain")
	}
	p.Reason, p.By = clean(strings.TrimSpace(p.Reason)), clean(strings.TrimSpace(p.By))
	return b.write(ctx, "pause board", func(t *txn) error {
		since := p.Since
		if since == 0 {
			since = t.now
		}
		return t.must("pause board", setPause, p.Mode, p.Reason, p.By, since)
	})
}

// Resume lets the board start cards again. A board that is not paused is a conflict.
func (b *Board) Resume(ctx context.Context, by string) error {
	err := b.write(ctx, "resume board", func(t *txn) error {
		n, err := t.run("resume board", clearPause)
		if err == nil && n == 0 {
			err = conflictBoard(b.slug, "is not paused")
		}
		return err
	})
	if err == nil {
		b.log.Info("board is resumed", "by", clean(by))
	}
	return err
}

// Paused gives the pause that holds the board, or nil.
func (b *Board) Paused(ctx context.Context) (*Pause, error) {
	var p *Pause
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		p, err = readPause(c)
		return err
	})
	return p, err
}

func readPause(c *sqlite.Conn) (*Pause, error) {
	var p Pause
	found, err := c.Row(selectPause, nil, &p.Mode, &p.Reason, &p.By, &p.Since)
	if err != nil || !found {
		return nil, err
	}
	return &p, nil
}
