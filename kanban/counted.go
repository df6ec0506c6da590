package kanban

import "context"

// Counted is a board in a list of boards: how many cards it has and whether it starts any. Counts is nil where the file is
// not there or cannot be read.
type Counted struct {
	Info
	IsCurrent bool           `json:"is_current"`
	Counts    map[string]int `json:"counts"`
	Total     int            `json:"total"` // cards that are not archived
	Pause     *Pause         `json:"pause"`
}

// Opener opens a board; release gives it back.
type Opener func(ctx context.Context, slug Slug) (board *Board, release func(), err error)

// Count opens a board and counts its cards. With an error the answer is still what is known without its file.
func Count(ctx context.Context, info Info, current Slug, open Opener) (Counted, error) {
	c := Counted{Info: info, IsCurrent: info.Slug == current}
	if !info.HasFile {
		return c, nil
	}
	board, release, err := open(ctx, info.Slug)
	if err != nil {
		return c, err
	}
	defer release()
	stats, err := board.Stats(ctx)
	if err != nil {
		return c, err
	}
	c.Counts, c.Pause = stats.ByStatus, stats.Pause
	for status, n := range c.Counts {
		if status != string(StatusArchived) {
			c.Total += n
		}
	}
	return c, nil
}
