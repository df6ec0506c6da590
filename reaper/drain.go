package reaper

import (
	"io"
	"os"
	"sync"
	"time"
)

// drainLimit is what a slow Spec.Output gets after the tree has ended, before the rest is given up: a reader that
// has stalled must not keep a run from being over.
const drainLimit = 5 * time.Second

// drain copies a child's output to its writer, from one goroutine. A writer that blocks makes the child wait, through
// the pipe; one that fails costs its output, and the child goes on.
type drain struct {
	from *os.File
	done chan struct{}
	gate gate
}

// gate stands between the copying and the caller's writer: once it is shut the writer is not called again.
type gate struct {
	mu sync.Mutex
	to io.Writer
}

func startDrain(from *os.File, to io.Writer) *drain {
	d := &drain{from: from, done: make(chan struct{}), gate: gate{to: to}}
	go func() {
		defer close(d.done)
		_, _ = io.Copy(&d.gate, from)
	}()
	return d
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to == nil {
		return len(p), nil
	}
	if _, err := g.to.Write(p); err != nil {
		g.to = nil
	}
	return len(p), nil
}

// finish returns when everything was copied, or the limit has passed.
func (d *drain) finish() {
	_ = d.from.SetReadDeadline(time.Now().Add(drainLimit))
	select {
	case <-d.done:
	case <-time.After(drainLimit + time.Second):
	}
}
