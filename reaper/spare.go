package reaper

func (r *Reaper) takeSpare() *keeperProc {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pool) == 0 {
		return nil
	}
	spare := r.pool[len(r.pool)-1]
	r.pool = r.pool[:len(r.pool)-1]
	r.wantSpare()
	return spare
}

func (r *Reaper) wantSpare() {
	select {
	case r.refill <- struct{}{}:
	default:
	}
}
