package reaper

import "time"

// Starting a keeper costs several times a bare exec, nearly all of it the start of this binary. A spare has that
// behind it and waits on its socket for a command.

// refillPause keeps the start of the next spare, which takes a whole processor for twenty milliseconds, from
// competing with the child that the last one was taken for. A short command has ended by then.
const refillPause = 10 * time.Millisecond

// takeSpare gives a warm keeper, or nil. Who takes one calls refillSoon when its child runs.
func (r *Reaper) takeSpare() *keeperProc {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pool) == 0 {
		return nil
	}
	spare := r.pool[len(r.pool)-1]
	r.pool = r.pool[:len(r.pool)-1]
	return spare
}

func (r *Reaper) refillSoon() { time.AfterFunc(refillPause, r.wantSpare) }

func (r *Reaper) wantSpare() {
	select {
	case r.refill <- struct{}{}:
	default:
	}
}

// fill starts what is missing, and says when to try again if that failed.
func (r *Reaper) fill() (retry <-chan time.Time) {
	for r.missing() {
		spare, err := r.launch()
		if err != nil {
			r.log.Warn("spare keeper could not be started", "error", err)
			return time.After(spareRetry)
		}
		r.mu.Lock()
		r.pool = append(r.pool, spare)
		r.mu.Unlock()
		go r.mind(spare)
	}
	return nil
}

func (r *Reaper) missing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.closed && len(r.pool) < r.spares
}

// mind takes a spare that ended unasked out of the pool.
func (r *Reaper) mind(spare *keeperProc) {
	<-spare.exited
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.pool {
		if other == spare {
			r.pool = append(r.pool[:i], r.pool[i+1:]...)
			spare.close()
			select {
			case r.spareDied <- struct{}{}:
			default:
			}
			return
		}
	}
}

// Warm says how many spares wait for a command.
func (r *Reaper) Warm() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pool)
}
