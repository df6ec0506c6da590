package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gatewayd/internal/problem"
)

// teardown does one admitted close: physically, outside the lock, and alone on its path. A handle that fails is
// stranded. The barrier is told in any case, also when the handle panics.
func (r *Registry) teardown(e *entry, h Handle) (err error) {
	ended := false
	defer func() {
		r.mu.Lock()
		r.settled(e, h, ended && err == nil)
		r.mu.Unlock()
	}()
	e.life <- struct{}{}
	defer func() { <-e.life }()
	if err = h.Close(); err != nil {
		err = fmt.Errorf("close %s: %w", e.path, err)
	}
	r.tell(e, err)
	ended = true
	return err
}

// tell says that the closes of a path began to fail, fail for another reason, or work again. They may be tried for hours.
func (r *Registry) tell(e *entry, err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	r.mu.Lock()
	before := e.trouble
	e.trouble = now
	r.mu.Unlock()
	switch {
	case now == before:
	case err != nil:
		r.log.Error("close failed, will be tried again", "path", e.path, "error", err)
	default:
		r.log.Info("file is closed at last", "path", e.path)
	}
}

// begin admits the closes of handles that the caller has taken off the path in this critical section, and does
// them one after the other. The result comes when all have settled.
func (r *Registry) begin(e *entry, handles []Handle) <-chan error {
	for range handles {
		e.admit()
	}
	result := make(chan error, 1)
	go func() {
		var failed error
		for _, h := range handles {
			failed = errors.Join(failed, r.teardown(e, h))
		}
		result <- failed
	}()
	return result
}

// CloseAll closes every handle, whoever still holds a reference, and waits until every close on every path has
// settled, also those that others began. The references out are void: their Handle says so and their Release is
// free. It may be called again and leaves the registry usable. When ctx ends first the closes go on, nothing
// is let open early, and the error names the paths.
func (r *Registry) CloseAll(ctx context.Context) error {
	return r.closeWhere(ctx, func(string) bool { return true })
}

// CloseAllUnder is CloseAll for the paths in a directory and below it, by whole components of their resolved names.
func (r *Registry) CloseAllUnder(ctx context.Context, dir string) error {
	resolved, err := resolve(dir)
	if err != nil {
		return err
	}
	below := strings.TrimSuffix(resolved, string(filepath.Separator)) + string(filepath.Separator)
	return r.closeWhere(ctx, func(path string) bool { return path == resolved || strings.HasPrefix(path, below) })
}

// closing is what CloseAll has to wait for on one path.
type closing struct {
	entry   *entry
	opening <-chan struct{}
	closed  <-chan error // of the closes that this call admitted; nil where others close
}

func (r *Registry) closeWhere(ctx context.Context, match func(path string) bool) error {
	var all []closing
	r.mu.Lock()
	for path, e := range r.paths {
		if match(path) {
			all = append(all, r.seize(e))
		}
	}
	for k := range r.keeps {
		if match(k.real) {
			k.giveUp()
		}
	}
	r.mu.Unlock()
	var failed error
	var stuck []string
	for _, c := range all {
		done, err := r.await(ctx, c)
		if failed = errors.Join(failed, err); !done {
			stuck = append(stuck, c.entry.path)
		}
	}
	if len(stuck) > 0 {
		r.log.Error("close did not end in time", "path", stuck, "stacks", stacks())
		failed = errors.Join(failed, &problem.Error{
			Kind: problem.Unavailable, Thing: strings.Join(stuck, ", "), What: "is still being closed",
			Fate: "the close goes on", Remedy: "wait for it before the file is touched", Err: context.Cause(ctx),
		})
	}
	return failed
}

// seize takes all generations of a path from their holders and starts to close them, the stranded too. The
// caller holds the lock; the close is admitted in the same critical section.
func (r *Registry) seize(e *entry) closing {
	c := closing{entry: e}
	if e.opening != nil {
		e.doomed, c.opening = true, e.opening
	}
	generations := e.retired
	if e.current != nil {
		generations = append(generations, e.current)
	}
	handles := e.stranded
	for _, g := range generations {
		g.ended.Store(true)
		r.reportLeak(g)
		handles = append(handles, g.handle)
	}
	e.current, e.retired, e.stranded = nil, nil, nil
	if len(handles) > 0 {
		c.closed = r.begin(e, handles)
	}
	r.tidy(e)
	return c
}

// reportLeak says that a file is closed under a holder's hands: at the end of the daemon that is a reference
// that nobody released.
func (r *Registry) reportLeak(g *generation) {
	if g.refs > 0 {
		r.log.Warn("closed a file that is still referenced", "path", g.entry.path, "references", g.refs,
			"stacks", string(bytes.Join(slices.Collect(maps.Values(g.holders)), []byte("\n"))))
	}
}

// await waits for everything that one path had going when it was seized.
func (r *Registry) await(ctx context.Context, c closing) (done bool, err error) {
	if c.opening != nil && !ended(ctx, c.opening) {
		return false, nil
	}
	r.mu.Lock()
	lifted := c.entry.lifted
	r.mu.Unlock()
	if lifted != nil && !ended(ctx, lifted) {
		return false, nil
	}
	if c.closed != nil {
		err = <-c.closed // its teardown has settled: the barrier was lifted after it
	}
	return true, err
}

func ended(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// stacks gives the goroutines that are inside a close of ours.
func stacks() string {
	buffer := make([]byte, 1<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var found [][]byte
	for one := range bytes.SplitSeq(buffer, []byte("\n\n")) {
		if bytes.Contains(one, []byte(").teardown(")) {
			found = append(found, one)
		}
	}
	return string(bytes.Join(found, []byte("\n\n")))
}
