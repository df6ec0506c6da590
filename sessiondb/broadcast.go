package sessiondb

import "sync"

// broadcast wakes everybody who took its channel before the next tell.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed by the next tell.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
