package reaper

import "context"

// Run is the reaper's actor.
func (r *Reaper) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
