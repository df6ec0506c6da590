package registry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gatewayd/internal/problem"
)

// A second set of files beside the lost one would split the database in two.
func TestALostGenerationIsClosedForGoodBeforeTheNextOpens(t *testing.T) {
	h := newHouse(t)
	ref, f := h.acquire("/x/a")
	f.lost.Store(true)
	f.failing.Store(1) // its capture cannot be made at first
	wantParts(t, h.wantBlocked("/x/a"), "/x/a", "is still being healed")
	ref.Release()
	if s := h.Stats().Paths[0]; s.Stranded != 1 || !h.disk.isOpen(f) {
		t.Fatalf("stats: %+v", s)
	}
	wantParts(t, h.wantBlocked("/x/a"), "/x/a", "is still being healed")
	if err := h.Sweep(t.Context()); err != nil || h.disk.isOpen(f) {
		t.Fatalf("sweep: %v", err)
	}
	next, g := h.acquire("/x/a")
	if g == f {
		t.Error("the lost handle was handed out")
	}
	next.Release()
	h.wantEmpty()
}

// run has the registry's actor at work until the test ends.
func (h *house) run() (stop func()) {
	ctx, cancel := context.WithCancel(h.Context())
	done := goDo(func() { _ = h.Registry.Run(ctx) })
	return func() { cancel(); <-done }
}

func TestAKeptFileIsOpenedAnewAfterALossWithoutAnybodyAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		defer h.run()()
		keep := h.kind.Keep("/x/a")
		f := h.kept(keep)
		if !h.disk.isOpen(f) {
			t.Fatal("a kept file was closed with its last reference")
		}
		time.Sleep(healLongest + time.Second) // it was well for a while
		f.lost.Store(true)
		f.failing.Store(2)
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		g := h.kept(keep)
		if g == f || h.disk.isOpen(f) {
			t.Error("the lost handle is still open")
		}
		if took := time.Since(began); took > 4*healFirst {
			t.Errorf("healed after %s", took)
		}
		time.Sleep(healLongest)
		g.replaced.Store(true)
		time.Sleep(2 * healFirst)
		if h.disk.isOpen(g) || h.disk.count() != 1 {
			t.Error("a replaced file was not opened anew by itself")
		}
		keep.Release()
		keep.Release()
		if h.disk.count() != 0 {
			t.Error("a released Keep holds the file")
		}
	})
}

// kept acquires through a Keep and releases at once.
func (h *house) kept(keep *Keep[*file]) *file {
	h.Helper()
	ref, err := keep.Acquire(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	defer ref.Release()
	f, ok := ref.Handle()
	if !ok {
		h.Fatal("a fresh reference is spent")
	}
	return f
}

// Another process holds the lost files: opening is refused, and tried again ever more rarely, a minute apart at most.
func TestHealingIsTriedEverMoreRarelyAndSaysWhatHindersIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		defer h.run()()
		keep := h.kind.Keep("/x/a")
		defer keep.Release()
		f := h.kept(keep)
		var tries []time.Duration
		began := time.Now()
		held := true
		h.disk.fault = func(string) error {
			tries = append(tries, time.Since(began).Round(time.Second))
			if held {
				return errDisk
			}
			return nil
		}
		f.lost.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, err := keep.Acquire(ctx)
		wantParts(t, err, "/x/a", "lost", errDisk.Error())
		if !problem.Is(err, problem.Unavailable) {
			t.Errorf("kind: %v", err)
		}
		if n := len(tries); n < 7 || n > 12 {
			t.Errorf("tries after the loss: %v", tries)
		}
		for i := 2; i < len(tries); i++ {
			if gap := tries[i] - tries[i-1]; gap > healLongest+2*time.Second {
				t.Errorf("a gap of %s in %v", gap, tries)
			}
		}
		if n := h.log.lines("cannot be opened again yet"); n != 1 {
			t.Errorf("the same trouble was said %d times", n)
		}
		held = false
		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		ref, err := keep.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ref.Release()
	})
}

// Its directory may be about to be removed.
func TestAKeptFileThatCloseAllTookIsNotOpenedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		defer h.run()()
		keep := h.kind.Keep("/x/a")
		defer keep.Release()
		for _, wait := range []time.Duration{0, 90 * time.Second} { // before the loss is met, and while it is being healed
			f := h.kept(keep)
			h.disk.fault = func(string) error { return errDisk }
			f.lost.Store(true)
			time.Sleep(wait)
			if err := h.CloseAllUnder(t.Context(), "/x"); err != nil {
				t.Fatal(err)
			}
			h.disk.fault = nil
			time.Sleep(2 * healLongest)
			if h.disk.count() != 0 {
				t.Error("it was opened behind CloseAllUnder")
			}
			if g := h.kept(keep); g == f {
				t.Error("the old handle was handed out")
			}
		}
	})
}

// A heal that ends between the failure of a caller's own try and its look at how things are is no reason for an error.
func TestAHealThatEndsBehindAFailedTryIsNotMissed(t *testing.T) {
	h := newHouse(t)
	keep := h.kind.Keep("/x/a")
	defer keep.Release()
	keep.keeper.healing = true
	tries := 0
	h.disk.fault = func(string) error {
		if tries++; tries > 1 {
			return nil
		}
		h.Registry.mu.Lock()
		defer h.Registry.mu.Unlock()
		keep.keeper.healing = false
		keep.keeper.signal()
		return errDisk
	}
	ref, err := keep.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ref.Release()
}
