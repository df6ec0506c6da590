package kanban

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkClaim is one claim (compare and swap, run, event) against one fdatasync of a 4 KiB overwrite, and against one of
// as many WAL frames as the format makes a claim write, all in the same directory.
func BenchmarkClaim(b *testing.B) {
	dir := b.TempDir()
	board, err := Open(b.Context(), Options{Path: filepath.Join(dir, "kanban.db"), Create: true})
	if err != nil {
		b.Fatal(err)
	}
	defer board.Close()
	ids := make([]string, b.N)
	for i := range ids {
		card, err := board.Create(b.Context(), NewTask{Title: "a card", Assignee: "dev"})
		if err != nil {
			b.Fatal(err)
		}
		ids[i] = card.ID
	}
	b.ResetTimer()
	for _, id := range ids {
		if _, err := board.Claim(b.Context(), id, Claimer{}); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	claim := b.Elapsed()
	const frames = 12 // leaves of three tables, seven indexes and the sequence
	page := writeAndSync(b, filepath.Join(dir, "page"), 4096, false)
	log := writeAndSync(b, filepath.Join(dir, "log"), frames*(4096+24), true)
	b.ReportMetric(float64(claim)/float64(page), "x_page")
	b.ReportMetric(float64(claim)/float64(log), "x_frames")
	b.ReportMetric(float64(page.Microseconds())/float64(b.N), "µs/page")
}

// writeAndSync writes and syncs b.N times, over the same place or one after the other up to a size that a -wal has.
func writeAndSync(b *testing.B, path string, size int, onward bool) time.Duration {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	data, began := make([]byte, size), time.Now()
	for i := range b.N {
		at := 0
		if onward {
			at = i % 10 * size
		}
		if _, err := f.WriteAt(data, int64(at)); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}
