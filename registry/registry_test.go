package registry

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

func TestOnePathIsOneHandleUntilTheLastRelease(t *testing.T) {
	h := newHouse(t)
	a, f := h.acquire("/x/state.db")
	b, g := h.acquire("/x/state.db")
	c, other := h.acquire("/x/other.db")
	if f != g || f == other {
		t.Fatal("handles are not by path")
	}
	a.Release()
	if !h.disk.isOpen(f) {
		t.Fatal("closed under a holder")
	}
	b.Release()
	if h.disk.isOpen(f) || !h.disk.isOpen(other) {
		t.Fatal("the last release must close its own file, and before it returns")
	}
	d, again := h.acquire("/x/state.db")
	if again == f {
		t.Fatal("a closed handle was handed out")
	}
	d.Release()
	c.Release()
	h.wantEmpty()
}

func TestReleaseIsIdempotentAndSaysSo(t *testing.T) {
	h := newHouse(t)
	keep, _ := h.acquire("/x/a")
	ref, _ := h.acquire("/x/a")
	copied := ref
	ref.Release()
	copied.Release()
	ref.Release()
	if n := h.log.lines("reference released twice"); n != 2 {
		t.Errorf("%d warnings for two releases too many", n)
	}
	if _, ok := copied.Handle(); ok {
		t.Error("a spent reference gives its handle")
	}
	// The slot serves again: the old copy must not touch its new holder.
	next, f := h.acquire("/x/a")
	if next.slot != ref.slot {
		t.Fatal("the slot is not used again: this test proves nothing")
	}
	copied.Release()
	keep.Release()
	if _, ok := next.Handle(); !ok || !h.disk.isOpen(f) {
		t.Error("a spent copy took the reference of the slot's next holder")
	}
	next.Release()
	h.wantEmpty()
	Ref[*file]{}.Release()
	if _, ok := (Ref[*file]{}).Handle(); ok {
		t.Error("the zero reference has a handle")
	}
}

func TestAReplacedFileIsOpenedAnewAndTheOldOneDrains(t *testing.T) {
	h := newHouse(t)
	oldRef, oldFile := h.acquire("/x/a")
	oldFile.replaced.Store(true)
	newRef, newFile := h.acquire("/x/a")
	if oldFile == newFile {
		t.Fatal("a replaced file was handed out")
	}
	if got, ok := oldRef.Handle(); !ok || got != oldFile || !h.disk.isOpen(oldFile) {
		t.Fatal("the old generation must live as long as its holders")
	}
	if s := h.Stats().Paths[0]; s.Generations != 2 || s.Retired != 1 || s.References != 2 {
		t.Errorf("stats: %+v", s)
	}
	oldRef.Release()
	if h.disk.isOpen(oldFile) || !h.disk.isOpen(newFile) {
		t.Fatal("the release of the old must close the old")
	}
	newRef.Release()
	h.wantEmpty()
}

// A path can be closing two generations at once. Whichever close ends first, only the second may let a new handle in.
func TestOnlyTheLastOfTwoOverlappingClosesLiftsTheBarrier(t *testing.T) {
	for _, order := range []string{"retired first", "current first"} {
		t.Run(order, func(t *testing.T) {
			h := newHouse(t)
			oldRef, oldFile := h.acquire("/x/a")
			oldFile.replaced.Store(true)
			newRef, newFile := h.acquire("/x/a")
			first, second, firstShut, secondShut := oldRef, newRef, oldFile.heldBack(), newFile.heldBack()
			if order == "current first" {
				first, second, firstShut, secondShut = newRef, oldRef, secondShut, firstShut
			}
			firstDone := goDo(first.Release)
			answer := <-firstShut // the first close runs
			secondDone := goDo(second.Release)
			for h.Stats().Paths[0].Closing != 2 { // the second is admitted, and waits for its turn
				runtimeYield()
			}
			wantParts(t, h.wantBlocked("/x/a"), "/x/a", "is still being closed")
			close(answer)
			<-firstDone
			answer = <-secondShut // one has settled, one runs
			h.wantBlocked("/x/a")
			close(answer)
			<-secondDone
			ref, _ := h.acquire("/x/a")
			ref.Release()
			h.wantEmpty()
		})
	}
}

func wantParts(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}

func TestACloseDoesNotHoldUpAnotherPath(t *testing.T) {
	h := newHouse(t)
	ref, f := h.acquire("/x/a")
	shut := f.heldBack()
	done := goDo(ref.Release)
	answer := <-shut
	other, _ := h.acquire("/x/b") // would time out
	other.Release()
	close(answer)
	<-done
	h.wantEmpty()
}

func TestAnOpenDoesNotHoldUpAnotherPath(t *testing.T) {
	h := newHouse(t)
	opening, goOn := make(chan struct{}), make(chan struct{})
	h.disk.gate = func(path string) {
		if path == "/x/a" {
			close(opening)
			<-goOn
		}
	}
	done := goDo(func() { ref, _ := h.acquire("/x/a"); ref.Release() })
	<-opening
	other, _ := h.acquire("/x/b")
	other.Release()
	wantParts(t, h.wantBlocked("/x/a"), "is still being opened")
	close(goOn)
	<-done
	h.wantEmpty()
}

func TestAFailedOpenLeavesNothingAndIsNotInherited(t *testing.T) {
	h := newHouse(t)
	h.disk.fault = func(string) error { return errDisk }
	if _, err := h.kind.Acquire(t.Context(), "/x/a"); !errors.Is(err, errDisk) {
		t.Fatalf("acquire: %v", err)
	}
	h.wantEmpty()
	h.disk.fault = nil
	ref, _ := h.acquire("/x/a")
	ref.Release()
	h.wantEmpty()
}

func TestAFailedCloseIsStrandedAndTriedAgain(t *testing.T) {
	h := newHouse(t)
	ref, f := h.acquire("/x/a")
	f.failing.Store(2)
	ref.Release()
	if s := h.Stats().Paths; len(s) != 1 || s[0].Stranded != 1 || s[0].Closing != 0 || !h.disk.isOpen(f) {
		t.Fatalf("stats: %+v", s)
	}
	next, g := h.acquire("/x/a") // the failed close has ended: the path goes on
	if g == f {
		t.Fatal("a stranded handle was handed out")
	}
	if err := h.Sweep(h.Context()); !errors.Is(err, errDisk) {
		t.Errorf("sweep: %v", err)
	}
	if err := h.Sweep(h.Context()); err != nil || h.disk.isOpen(f) {
		t.Errorf("second sweep: %v, open %v", err, h.disk.isOpen(f))
	}
	next.Release()
	h.wantEmpty()
	if failed, closed := h.log.lines("close failed"), h.log.lines("closed at last"); failed != 1 || closed != 1 {
		t.Errorf("%d lines for the same failure twice, %d for its end", failed, closed)
	}
}

func TestCloseAllTakesEverythingAndMayBeCalledAgain(t *testing.T) {
	h := newHouse(t)
	a, f := h.acquire("/x/a")
	f.replaced.Store(true)
	b, _ := h.acquire("/x/a")
	c, stranded := h.acquire("/x/b")
	stranded.failing.Store(1)
	c.Release()
	for range 2 {
		if err := h.CloseAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.wantEmpty()
	}
	if _, ok := a.Handle(); ok {
		t.Error("a reference gives a handle that CloseAll closed")
	}
	a.Release()
	b.Release()
	if h.log.lines("released twice") != 0 || h.log.lines("closed a file that is still referenced") != 2 {
		t.Errorf("log:\n%s", h.log.buf.String())
	}
	ref, _ := h.acquire("/x/a")
	ref.Release()
	h.wantEmpty()
}

func TestCloseAllReportsWhatCannotBeClosed(t *testing.T) {
	h := newHouse(t)
	_, f := h.acquire("/x/a")
	f.failing.Store(1)
	err := h.CloseAll(t.Context())
	wantParts(t, err, "close /x/a", errDisk.Error())
	if err := h.CloseAll(t.Context()); err != nil {
		t.Error(err)
	}
	h.wantEmpty()
}

func TestCloseAllUnderIsByWholeComponentsAndFollowsLinks(t *testing.T) {
	h := newHouse(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"ab", "abc", "ab/deep"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "ab"), filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	_, inside := h.acquire(base + "/ab/deep/a")
	_, linked := h.acquire(base + "/link/b")
	ref, outside := h.acquire(base + "/abc/a")
	if linked.path != base+"/ab/b" {
		t.Errorf("opened %s", linked.path)
	}
	if err := h.CloseAllUnder(t.Context(), base+"/link"); err != nil {
		t.Fatal(err)
	}
	if h.disk.isOpen(inside) || h.disk.isOpen(linked) || !h.disk.isOpen(outside) {
		t.Error("closed the wrong ones")
	}
	ref.Release()
	h.wantEmpty()
}

// The last release dropped the generation and its close still runs: there is nothing to see but the barrier.
func TestCloseAllUnderWaitsForACloseThatOthersBegan(t *testing.T) {
	h := newHouse(t)
	ref, f := h.acquire("/x/dir/a")
	shut := f.heldBack()
	released := goDo(ref.Release)
	answer := <-shut
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := h.CloseAllUnder(ctx, "/x/dir")
	if !problem.Is(err, problem.Unavailable) {
		t.Fatalf("came back while a close runs: %v", err)
	}
	wantParts(t, err, "/x/dir/a", "is still being closed")
	if h.log.lines("heldBack") != 0 || h.log.lines("teardown") == 0 {
		t.Errorf("the stack of the stuck close is not in the log:\n%s", h.log.buf.String())
	}
	var result error
	done := goDo(func() { result = h.CloseAllUnder(t.Context(), "/x/dir") })
	close(answer)
	<-done
	if result != nil || h.disk.isOpen(f) {
		t.Errorf("open %v, %v", h.disk.isOpen(f), result)
	}
	<-released
	h.wantEmpty()
}

func TestCloseAllUnderCatchesAnOpenOnItsWay(t *testing.T) {
	h := newHouse(t)
	opening, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.disk.gate = func(string) { once.Do(func() { close(opening); <-goOn }) }
	acquired := goDo(func() { ref, _ := h.acquire("/x/dir/a"); ref.Release() })
	<-opening
	var opened int
	closed := goDo(func() {
		if err := h.CloseAllUnder(t.Context(), "/x/dir"); err != nil {
			t.Error(err)
		}
		h.disk.mu.Lock()
		opened = h.disk.opened
		h.disk.mu.Unlock()
	})
	for !h.isDoomed("/x/dir/a") {
		runtimeYield()
	}
	close(goOn)
	<-closed
	<-acquired
	if opened == 0 {
		t.Error("came back before the open on its way had ended")
	}
	if h.disk.opened != 2 {
		t.Errorf("opened %d times: the handle on its way must be closed unseen and the file opened again", h.disk.opened)
	}
	h.wantEmpty()
}

// The last holder of a replaced file leaves while its successor is being opened: the close waits for its turn, and
// the handle that was opened beside it is not used.
func TestACloseAdmittedDuringAnOpenMakesTheOpenerLookAgain(t *testing.T) {
	h := newHouse(t)
	oldRef, oldFile := h.acquire("/x/a")
	oldFile.replaced.Store(true)
	opening, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.disk.gate = func(string) { once.Do(func() { close(opening); <-goOn }) }
	var number int
	acquired := goDo(func() {
		ref, f := h.acquire("/x/a")
		if number = f.number; h.disk.isOpen(oldFile) {
			t.Error("handed out while the file before it is still open")
		}
		ref.Release()
	})
	<-opening
	released := goDo(oldRef.Release)
	for h.Stats().Paths[0].Closing != 1 {
		runtimeYield()
	}
	close(goOn)
	<-acquired
	<-released
	if number != 3 {
		t.Errorf("handle %d was used; the second was opened beside a close", number)
	}
	h.wantEmpty()
}

func (h *house) isDoomed(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.paths[path]
	return e != nil && e.doomed
}

func TestEveryWaitIsBoundedByItsContext(t *testing.T) {
	h := newHouse(t)
	ref, f := h.acquire("/x/a")
	shut := f.heldBack()
	done := goDo(ref.Release)
	answer := <-shut
	cause := errors.New("the person left")
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error)
	go func() { _, err := h.kind.Acquire(ctx, "/x/a"); failed <- err }()
	cancel(cause)
	if err := <-failed; !errors.Is(err, cause) {
		t.Errorf("acquire: %v", err)
	}
	h.acquireTimeout = time.Millisecond
	if _, err := h.kind.Acquire(context.Background(), "/x/a"); !problem.Is(err, problem.Unavailable) {
		t.Errorf("acquire without a deadline: %v", err)
	}
	close(answer)
	<-done
	h.wantEmpty()
}

func TestAPathIsOneKindOfFile(t *testing.T) {
	h := newHouse(t)
	ref, _ := h.acquire("/x/a")
	other := For(h.Registry, h.disk.Open)
	_, err := other.Acquire(t.Context(), "/x/a")
	wantParts(t, err, "/x/a", "another kind")
	ref.Release()
	again, err := other.Acquire(t.Context(), "/x/a")
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
	h.wantEmpty()
}

func TestLinksAreFollowedAnewWhenTheFileWasClosed(t *testing.T) {
	h := newHouse(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	for _, target := range []string{"one", "two"} {
		_ = os.Remove(link)
		if err := os.Symlink(target, link); err != nil { // leads to a file that is still to be made
			t.Fatal(err)
		}
		ref, f := h.acquire(link)
		direct, g := h.acquire(filepath.Join(dir, target))
		if f != g || f.path != filepath.Join(dir, target) {
			t.Errorf("link to %s opened %s", target, f.path)
		}
		direct.Release()
		ref.Release()
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.kind.Acquire(t.Context(), filepath.Join(dir, "loop")); err == nil {
		t.Error("a loop of links was opened")
	}
	h.wantEmpty()
}

func TestRunSweepsAndClosesAllAtItsEnd(t *testing.T) {
	h := newHouse(t)
	h.sweep = time.Millisecond
	ref, f := h.acquire("/x/a")
	_, leaked := h.acquire("/x/b")
	stranded, s := h.acquire("/x/c")
	s.failing.Store(1)
	stranded.Release()
	ctx, stop := context.WithCancel(t.Context())
	var err error
	done := goDo(func() { err = h.Registry.Run(ctx) })
	for f.idle.Load() == 0 || h.disk.isOpen(s) {
		runtimeYield()
	}
	stop()
	<-done
	if err != nil || h.disk.isOpen(f) || h.disk.isOpen(leaked) {
		t.Errorf("run: %v", err)
	}
	ref.Release()
	if _, err := h.kind.Acquire(t.Context(), "/x/a"); !problem.Is(err, problem.Unavailable) {
		t.Errorf("acquire after the end: %v", err)
	}
	h.wantEmpty()
}

func TestALeakIsNamedByTheStackOfItsAcquire(t *testing.T) {
	h := newHouse(t)
	h.trace = true
	h.acquire("/x/a")
	if err := h.CloseAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.log.lines("TestALeakIsNamedByTheStackOfItsAcquire") == 0 {
		t.Errorf("log:\n%s", h.log.buf.String())
	}
}
