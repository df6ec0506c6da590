package registry

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// model is the registry as a person would explain it: per path a current generation with holders, older ones
// that drain, closes that run, and callers that wait.
type model struct {
	paths   map[string]*modelPath
	refs    []modelRef
	waiters []*waiter
}

type modelPath struct {
	current  *file
	holders  map[*file]int
	closing  []*file // admitted, in the order in which they get their turn
	stranded []*file
}

type modelRef struct {
	ref   Ref[*file]
	file  *file
	path  string
	spent bool
	void  bool
}

// waiter is an Acquire that has not come back when it was begun.
type waiter struct {
	path string
	ref  Ref[*file]
	err  error
	done bool
}

// machine drives the real registry and the model side by side. Closes of its files wait until the machine lets
// them go on, so that every interleaving of closes with everything else is reached, and reached again.
type machine struct {
	*house
	model model
	rt    *rapid.T
}

var modelPaths = []string{"/x/a", "/x/b", "/y/a"}

func TestTheRegistryFollowsItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var escaped any
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t, rt)
			defer m.finish()
			defer func() { escaped = recover() }() // rapid ends a try by panics of its own, which must not cross bubbles
			rt.Repeat(map[string]func(*rapid.T){
				"acquire": m.acquireOne, "release": m.releaseOne, "release again": m.releaseAgain, "replace": m.replace,
				"let a close end": m.letClose, "let a close fail": m.letCloseFail, "sweep": m.sweepStranded,
				"close all under": m.closeUnder, "": m.check,
			})
		})
		if fmt.Sprintf("%T", escaped) == "rapid.invalidData" {
			panic(escaped) // on a line of its own: rapid tells failures apart by where they come from
		}
		if escaped != nil {
			panic(escaped)
		}
	})
}

func newMachine(t *testing.T, rt *rapid.T) *machine {
	m := &machine{house: newHouse(t), rt: rt, model: model{paths: map[string]*modelPath{}}}
	m.acquireTimeout = 1 << 60 // the clock of the bubble jumps whenever everybody waits
	for _, path := range modelPaths {
		m.model.paths[path] = &modelPath{holders: map[*file]int{}}
	}
	m.disk.opening = func(f *file) { f.heldBack() }
	return m
}

// acquireOne begins an Acquire. By the model it comes back at once when there is a current file that was not
// replaced, or when nothing is closing; else it waits for the last close.
func (m *machine) acquireOne(rt *rapid.T) {
	path := rapid.SampledFrom(modelPaths).Draw(rt, "path")
	p := m.model.paths[path]
	w := &waiter{path: path}
	m.model.waiters = append(m.model.waiters, w)
	go func() {
		w.ref, w.err = m.kind.Acquire(m.Context(), path)
		w.done = true
	}()
	synctest.Wait()
	if p.current != nil && p.current.replaced.Load() {
		p.current = nil
	}
	if mustCome := p.current != nil || len(p.closing) == 0; w.done != mustCome {
		rt.Fatalf("acquire %s came back: %v, by the model: %v", path, w.done, mustCome)
	}
	m.collect(rt)
}

// collect takes the references of those who came back, and holds them to the one current file of their path.
func (m *machine) collect(rt *rapid.T) {
	m.model.waiters = slices.DeleteFunc(m.model.waiters, func(w *waiter) bool {
		if !w.done {
			return false
		}
		f, ok := w.ref.Handle()
		if w.err != nil || !ok {
			rt.Fatalf("acquire %s: %v, handle %v", w.path, w.err, ok)
		}
		p := m.model.paths[w.path]
		if p.current == nil {
			p.current = f
		}
		if f != p.current {
			rt.Fatalf("acquire %s gave handle %d, current is %d", w.path, f.number, p.current.number)
		}
		p.holders[f]++
		m.model.refs = append(m.model.refs, modelRef{ref: w.ref, file: f, path: w.path})
		return true
	})
}

func (m *machine) releaseOne(rt *rapid.T) {
	i := m.pick(rt, func(r modelRef) bool { return !r.spent })
	r := &m.model.refs[i]
	r.spent = true
	p := m.model.paths[r.path]
	go r.ref.Release()
	synctest.Wait()
	if r.void {
		return
	}
	if p.holders[r.file]--; p.holders[r.file] == 0 {
		delete(p.holders, r.file)
		p.closing = append(p.closing, r.file)
		if p.current == r.file {
			p.current = nil
		}
	}
}

func (m *machine) releaseAgain(rt *rapid.T) {
	i := m.pick(rt, func(r modelRef) bool { return r.spent })
	before := m.log.lines("reference released twice")
	m.model.refs[i].ref.Release()
	if m.log.lines("reference released twice") != before+1 {
		rt.Fatal("no warning")
	}
}

func (m *machine) pick(rt *rapid.T, which func(modelRef) bool) int {
	var candidates []int
	for i, r := range m.model.refs {
		if which(r) {
			candidates = append(candidates, i)
		}
	}
	if len(candidates) == 0 {
		rt.Skip()
	}
	return rapid.SampledFrom(candidates).Draw(rt, "reference")
}

func (m *machine) replace(rt *rapid.T) {
	p := m.model.paths[rapid.SampledFrom(modelPaths).Draw(rt, "path")]
	if p.current == nil {
		rt.Skip()
	}
	p.current.replaced.Store(true)
}

func (m *machine) letClose(rt *rapid.T)     { m.endClose(rt, false) }
func (m *machine) letCloseFail(rt *rapid.T) { m.endClose(rt, true) }

// endClose lets the close go on whose turn it is. Closes of one path run one after the other, in any order of
// those admitted; when the last has ended, the waiters come back, all with one new file.
func (m *machine) endClose(rt *rapid.T, fail bool) {
	path := rapid.SampledFrom(modelPaths).Draw(rt, "path")
	p := m.model.paths[path]
	if len(p.closing) == 0 {
		rt.Skip()
	}
	f, answer := m.running(p)
	if f == nil {
		rt.Fatalf("%s: %d closes are admitted and none runs", path, len(p.closing))
	}
	if fail {
		f.failing.Store(1)
		p.stranded = append(p.stranded, f)
	}
	close(answer)
	synctest.Wait()
	p.closing = slices.DeleteFunc(p.closing, func(g *file) bool { return g == f })
	for _, w := range m.model.waiters {
		if w.path == path && w.done != (len(p.closing) == 0) {
			rt.Fatalf("a waiter of %s came back: %v, with %d closes running", path, w.done, len(p.closing))
		}
	}
	m.collect(rt)
}

// running finds the close that has its turn.
func (m *machine) running(p *modelPath) (*file, chan struct{}) {
	for _, f := range p.closing {
		select {
		case answer := <-f.shut:
			return f, answer
		default:
		}
	}
	return nil, nil
}

// sweepStranded begins the retry; the stranded join the closes.
func (m *machine) sweepStranded(*rapid.T) {
	if m.sweeping() {
		m.rt.Skip()
	}
	m.retryStranded()
	synctest.Wait()
	for _, p := range m.model.paths {
		p.closing = append(p.closing, p.stranded...)
		p.stranded = nil
	}
}

// sweeping is true while closes run: a retry in the middle of them would only wait.
func (m *machine) sweeping() bool {
	for _, p := range m.model.paths {
		if len(p.closing) > 0 {
			return true
		}
	}
	return false
}

// closeUnder takes a directory's files from their holders.
func (m *machine) closeUnder(rt *rapid.T) {
	dir := rapid.SampledFrom([]string{"/x", "/y"}).Draw(rt, "directory")
	returned := false
	go func() { _ = m.CloseAllUnder(m.Context(), dir); returned = true }()
	synctest.Wait()
	busy := false
	for path, p := range m.model.paths {
		if path[:2] != dir {
			continue
		}
		p.closing = append(p.closing, p.stranded...)
		for f := range p.holders {
			p.closing = append(p.closing, f)
		}
		p.current, p.stranded, p.holders = nil, nil, map[*file]int{}
		busy = busy || len(p.closing) > 0
		for i := range m.model.refs {
			if r := &m.model.refs[i]; r.path == path && !r.spent {
				r.void = true
			}
		}
	}
	if returned == busy {
		rt.Fatalf("CloseAllUnder(%s) returned: %v, closes running: %v", dir, returned, busy)
	}
}

// check compares what can be seen from outside after each step.
func (m *machine) check(rt *rapid.T) {
	synctest.Wait()
	open := 0
	for path, p := range m.model.paths {
		open += len(p.holders) + len(p.closing) + len(p.stranded)
		refs := 0
		for f, n := range p.holders {
			refs += n
			if !m.disk.isOpen(f) {
				rt.Fatalf("%s: handle %d is closed under %d holders", path, f.number, n)
			}
		}
		if got, want := m.statsOf(path), fmt.Sprintf("%d %d %d %d", refs, len(p.holders), len(p.closing), len(p.stranded)); got != want {
			rt.Fatalf("%s: references, generations, closing, stranded are %s, by the model %s", path, got, want)
		}
	}
	if n := m.disk.count(); n != open {
		rt.Fatalf("%d handles are open, by the model %d", n, open)
	}
	for _, r := range m.model.refs {
		if _, ok := r.ref.Handle(); ok == (r.spent || r.void) {
			rt.Fatalf("a reference on %s gives a handle: %v; spent %v, void %v", r.path, ok, r.spent, r.void)
		}
	}
}

func (m *machine) statsOf(path string) string {
	for _, s := range m.Stats().Paths {
		if s.Path == path {
			return fmt.Sprintf("%d %d %d %d", s.References, s.Generations, s.Closing, s.Stranded)
		}
	}
	return "0 0 0 0"
}

// finish lets everything end, so that the bubble can.
func (m *machine) finish() {
	m.disk.opening = nil
	stop := make(chan struct{})
	m.disk.mu.Lock()
	for f := range m.disk.open {
		go func() {
			for {
				select {
				case answer := <-f.shut:
					close(answer)
				case <-stop:
					return
				}
			}
		}()
	}
	m.disk.mu.Unlock()
	_ = m.CloseAll(m.Context())
	synctest.Wait()
	_ = m.CloseAll(m.Context())
	close(stop)
}
