package registry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

func runtimeYield() { runtime.Gosched() }

// A thousand goroutines over a few paths, with replaced files, failing closes and CloseAll in between: nobody
// sees a handle of another path or a closed one that was not taken by CloseAll, and nothing is left.
func TestAThousandGoroutines(t *testing.T) {
	h := newHouse(t)
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 7))
			for range 20 {
				h.useOnce(random)
			}
		})
	}
	all.Wait()
	for h.Sweep(context.Background()) != nil {
		runtimeYield()
	}
	if err := h.CloseAll(context.Background()); err != nil {
		t.Error(err)
	}
	h.wantEmpty()
}

func (h *house) useOnce(random *rand.Rand) {
	path := fmt.Sprintf("/x/%d", random.IntN(8))
	ref, err := h.kind.Acquire(context.Background(), path)
	if err != nil {
		h.Errorf("acquire: %v", err)
		return
	}
	f, ok := ref.Handle()
	if ok && f.path != path {
		h.Errorf("got %s for %s", f.path, path)
	}
	if ok && !h.disk.isOpen(f) { // by CloseAll, which makes the references void before it closes
		if _, still := ref.Handle(); still {
			h.Errorf("%s is closed under a reference", path)
		}
	}
	switch random.IntN(40) {
	case 0:
		if ok {
			f.replaced.Store(true)
		}
	case 1:
		if ok {
			f.failing.Store(1)
		}
	case 2:
		_ = h.CloseAllUnder(context.Background(), path)
	case 3:
		_ = h.Sweep(context.Background())
	}
	ref.Release()
}

func TestTheHotPathAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself; the plain run checks this")
	}
	h := newHouse(t)
	keep, _ := h.acquire("/x/a")
	defer keep.Release()
	ctx := t.Context()
	n := testing.AllocsPerRun(1000, func() {
		ref, err := h.kind.Acquire(ctx, "/x/a")
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ref.Handle(); !ok {
			t.Fatal("spent")
		}
		ref.Release()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	r := New(Options{})
	d := newDisk(nil)
	kind := For(r, d.Open)
	ctx := context.Background()
	paths := make([]string, 100)
	for i := range paths {
		paths[i] = fmt.Sprintf("/x/boards/board-%d/kanban.db", i)
		if _, err := kind.Acquire(ctx, paths[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.Run("one", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			ref, _ := kind.Acquire(ctx, paths[i%len(paths)])
			ref.Release()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				ref, _ := kind.Acquire(ctx, paths[i%len(paths)])
				ref.Release()
			}
		})
	})
	_ = r.CloseAll(ctx)
}
