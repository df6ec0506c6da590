package sqlite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gatewayd/internal/procfs"
)

// What the guards cost: a look at the machine, an open that shares one, and the two checks before a transaction.
func BenchmarkGuards(b *testing.B) {
	b.Run("look at all descriptors", func(b *testing.B) {
		for b.Loop() {
			if s, err := procfs.ScanFiles(procfs.OnDisk); err != nil || len(s.Files) == 0 {
				b.Fatal(err)
			}
		}
	})
	f := mustOpen(b, testOptions(b))
	mustWrite(b, f, insert("a"))
	f.marks = marks{seen: 5, raw: 5}
	b.Run("refuse at open", func(b *testing.B) {
		for b.Loop() {
			if err := f.refuseRetired(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("identity", func(b *testing.B) {
		for b.Loop() {
			f.checkIdentity()
		}
	})
	b.Run("content", func(b *testing.B) {
		for b.Loop() {
			f.checkContent(f.writer.conn)
		}
	})
	b.Run("append with and without content", func(b *testing.B) {
		var took [2][]time.Duration
		n := 0
		for b.Loop() {
			n++
			f.marks = marks{uint32(n % 2), uint32(n % 2)}
			began := time.Now()
			mustWrite(b, f, insert(fmt.Sprint("row ", n)))
			took[n%2] = append(took[n%2], time.Since(began))
		}
		for i, name := range []string{"without-ns", "with-ns"} {
			slices.Sort(took[i])
			if n := len(took[i]); n > 0 {
				b.ReportMetric(float64(took[i][n/2]), name)
			}
		}
	})
}
