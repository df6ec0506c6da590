package kanban

import (
	"context"
	"errors"
)

// StopAll asks for the end of every worker of the board and says how many cards that is. A card whose worker lives here
// is let go by the dispatcher when the worker is gone; one that was claimed elsewhere, or by hand, at once.
func (b *Board) StopAll(ctx context.Context, reason, actor string) (int, error) {
	running, err := b.Running(ctx)
	if err != nil {
		return 0, err
	}
	asked := 0
	for _, r := range running {
		_, err := b.Terminate(ctx, r.Run.ID, reason, actor)
		switch {
		case errors.Is(err, ErrConflict), errors.Is(err, ErrNotFound): // it ended meanwhile
		case err != nil && !Committed(err):
			return asked, err
		default:
			asked++
		}
	}
	return asked, nil
}
