package registry

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if holdMain() {
		return
	}
	_ = flag.Set("rapid.checks", "2000") // a try takes a fifth of a millisecond
	goleak.VerifyTestMain(m)
}

// disk plays the file system: it knows which handles are open and refuses two physical operations on one path
// at once.
type disk struct {
	t      *testing.T
	mu     sync.Mutex
	open   map[*file]bool
	busy   map[string]int
	opened int
	fault  func(path string) error // of opens; nil is none
	gate   func(path string)       // opens wait in it; nil is none

	opening func(f *file) // prepares a new file; nil is nothing
}

type file struct {
	disk     *disk
	path     string
	number   int
	replaced atomic.Bool
	lost     atomic.Bool
	failing  atomic.Int32       // so many closes fail first
	shut     chan chan struct{} // not nil: Close announces itself here and waits for the answer
	idle     atomic.Int32
}

var errDisk = errors.New("disk says no")

func newDisk(t *testing.T) *disk {
	return &disk{t: t, open: map[*file]bool{}, busy: map[string]int{}}
}

func (d *disk) enter(path string) func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[path]++; d.busy[path] > 1 {
		d.t.Errorf("two physical operations on %s at once", path)
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.busy[path]--
	}
}

func (d *disk) Open(ctx context.Context, path string) (*file, error) {
	defer d.enter(path)()
	if d.gate != nil {
		d.gate(path)
	}
	if d.fault != nil {
		if err := d.fault(path); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened++
	f := &file{disk: d, path: path, number: d.opened}
	if d.opening != nil {
		d.opening(f)
	}
	d.open[f] = true
	return f, nil
}

func (f *file) Replaced() bool { return f.replaced.Load() }
func (f *file) Lost() bool     { return f.lost.Load() }
func (f *file) DropIdle()      { f.idle.Add(1) }

func (f *file) Close() error {
	defer f.disk.enter(f.path)()
	if f.shut != nil {
		answer := make(chan struct{})
		f.shut <- answer
		<-answer
	}
	if f.failing.Add(-1) >= 0 {
		return errDisk
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.disk.open[f] {
		f.disk.t.Errorf("handle %d of %s closed twice", f.number, f.path)
	}
	delete(f.disk.open, f)
	return nil
}

func (d *disk) isOpen(f *file) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open[f]
}

func (d *disk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// heldBack makes the file's Close wait until the test answers.
func (f *file) heldBack() chan chan struct{} {
	f.shut = make(chan chan struct{})
	return f.shut
}

type house struct {
	*testing.T
	*Registry
	disk *disk
	kind *Kind[*file]
	log  *safeBuffer
}

func newHouse(t *testing.T) *house {
	log := &safeBuffer{}
	d := newDisk(t)
	r := New(Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	return &house{t, r, d, For(r, d.Open), log}
}

func (h *house) acquire(path string) (Ref[*file], *file) {
	h.Helper()
	ref, err := h.kind.Acquire(h.Context(), path)
	if err != nil {
		h.Fatalf("acquire %s: %v", path, err)
	}
	f, ok := ref.Handle()
	if !ok {
		h.Fatalf("acquire %s: a fresh reference is spent", path)
	}
	return ref, f
}

// wantBlocked says that the path cannot be had now; it waits only as long as a loaded machine needs to be wrong.
func (h *house) wantBlocked(path string) error {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 50*time.Millisecond)
	defer cancel()
	ref, err := h.kind.Acquire(ctx, path)
	if err == nil {
		ref.Release()
		h.Fatalf("%s was opened beside a close that still runs", path)
	}
	return err
}

func (h *house) wantEmpty() {
	h.Helper()
	if stats := h.Stats(); len(stats.Paths) != 0 || len(h.names) != 0 {
		h.Errorf("left behind: %+v, names %v", stats.Paths, h.names)
	}
	if n := h.disk.count(); n != 0 {
		h.Errorf("%d handles are still open", n)
	}
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) lines(part string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), part)
}

// goDo runs f beside the test and gives a channel that is closed when it is done.
func goDo(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	return done
}
