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
	page := writeAndSync(b, filepath.Join(dir, "page"), 4096, false)
	log := writeAndSync(b, filepath.Join(dir, "log"), claimFrames*(4096+24), true)
	b.ReportMetric(float64(claim)/float64(page), "x_page")
	b.ReportMetric(float64(claim)/float64(log), "x_frames")
	b.ReportMetric(float64(page.Microseconds())/float64(b.N), "µs/page")
}

// claimFrames is what the format makes a claim write: leaves of tasks, task_runs and task_events, of the six indexes that
// the new rows and the new status are in, and the sequence.
const claimFrames = 10

func TestAClaimWritesNoMorePagesThanTheFormatAsks(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{Assignee: "dev"})
	if _, err := b.file.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mustClaim(t, card.ID) // the first write after a whole checkpoint begins the -wal anew
	wal, frames := fileBytes(t, b.Path()+"-wal"), 0
	for at := 32; at+24 <= len(wal) && wal[at+8:at+16] == wal[16:24]; at += 24 + 4096 {
		frames++
	}
	if frames == 0 || frames > claimFrames {
		t.Errorf("a claim wrote %d frames, want at most %d", frames, claimFrames)
	}
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
