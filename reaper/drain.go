package reaper

import (
	"io"
	"os"
	"time"
)

// drainLimit is what a slow Spec.Output gets after the tree has ended, for what is left in the pipe: a reader that
// has stalled must not keep a run from being over.
const drainLimit = 3 * time.Second

// drain copies a child's output to its writer, from one goroutine. A writer that blocks makes the child wait, through
// the pipe; one that fails costs its output, and the child goes on.
type drain struct{ done chan struct{} }

func startDrain(from *os.File, to io.Writer) *drain {
	d := &drain{done: make(chan struct{})}
	go func() {
		defer close(d.done)
		if to != nil {
			_, _ = io.Copy(onlyWriter{to}, from)
		}
		_, _ = io.Copy(io.Discard, from)
	}()
	return d
}

// onlyWriter hides every other method: a ReadFrom of the writer would decide for itself when to pass on what.
type onlyWriter struct{ io.Writer }

// finish returns when everything was copied, or the limit has passed. The pipe is closed after that, so a writer
// that stalled is not called again.
func (d *drain) finish() { await(d.done, drainLimit) }
