package runs

import (
	"context"

	"gatewayd/sessiondb"
)

// page is how many events a watcher is given at once.
const page = 256

// Next gives the events of a run behind a number, as soon as there are any. over: the run has ended and these are the last. Without events
// and without an error ctx has ended, or the run is followed by nobody here, because the daemon is stopping. It reads what is stored, so a
// watcher that stands still holds nothing.
func (d *Desk) Next(ctx context.Context, id string, after int64) (events []sessiondb.RunEvent, over bool, err error) {
	for {
		var more <-chan struct{}
		f := d.follower(id)
		if f != nil {
			more = f.next() // before the look: what comes after it closes this one
		}
		events, over, err := d.after(ctx, id, after)
		if err != nil || over || len(events) > 0 || f == nil {
			return events, over, err
		}
		select {
		case <-more:
		case <-f.life.Done():
			events, over, err = d.after(context.WithoutCancel(ctx), id, after)
			return events, over, err
		case <-ctx.Done():
			return nil, false, nil
		}
	}
}

func (d *Desk) after(ctx context.Context, id string, after int64) ([]sessiondb.RunEvent, bool, error) {
	run, err := d.opts.Store.Run(ctx, id) // before its events: an end that comes in between is seen the next time
	if err != nil {
		return nil, false, err
	}
	events, err := d.opts.Store.RunEvents(ctx, id, after, page)
	return events, run.EndedAt != nil && len(events) < page, err
}
