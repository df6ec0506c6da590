package sqlite

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// Somebody truncates the -shm again and again under readers and writers. Every connection may be lost at any
// moment; the process, and what was acknowledged, may not.
func TestAStormOfTruncationsCostsNoAcknowledgedRow(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	var acked, refused atomic.Int64
	var stop atomic.Bool
	var work, weather sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 50 {
				if err := f.Write(context.Background(), insert(fmt.Sprint(w, "-", i))); err != nil {
					refused.Add(1)
				} else {
					acked.Add(1)
				}
			}
		})
	}
	for range 2 {
		work.Go(func() {
			for range 50 {
				f.Read(context.Background(), func(c *Conn) error {
					_, err := c.Row("SELECT count(*) FROM rows", nil, new(int))
					return err
				})
			}
		})
	}
	weather.Go(func() {
		for !stop.Load() {
			os.Truncate(f.Path()+"-shm", 0)
			before := f.writer.tries.Load()
			for f.writer.tries.Load() < before+20 && !stop.Load() {
				f.Stamp()
			}
		}
	})
	work.Wait()
	stop.Store(true)
	weather.Wait()
	n := int64(count(t, f))
	t.Logf("%d acknowledged, %d refused, %d stored, %d connections not freed", acked.Load(), refused.Load(), n, f.lost.add()-1)
	if n < acked.Load() {
		t.Errorf("%d rows of %d acknowledged", n, acked.Load())
	}
}
