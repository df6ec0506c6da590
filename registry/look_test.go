package registry

import (
	"testing"

	"gatewayd/internal/problem"
)

func TestALookOpensNothingAndWaitsForNothing(t *testing.T) {
	h := newHouse(t)
	keep := h.kind.Keep("/x/a")
	defer keep.Release()
	wantNothing := func(when string) {
		t.Helper()
		if _, err := keep.Look(); !problem.Is(err, problem.Unavailable) {
			t.Errorf("%s: %v", when, err)
		}
	}
	wantNothing("before the first Acquire")
	if h.disk.count() != 0 {
		t.Error("a look opened the file")
	}
	f := h.kept(keep)
	ref, err := keep.Look()
	if err != nil {
		t.Fatal(err)
	}
	if g, ok := ref.Handle(); !ok || g != f {
		t.Error("the look is at another file")
	}
	ref.Release()
	f.lost.Store(true)
	wantNothing("while a lost one is open")
	if !h.disk.isOpen(f) || h.disk.count() != 1 {
		t.Error("a look healed the file")
	}
}
