package sessiondb

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkAppend compares a durable append of a 1 KB row with what the disk takes for six frames of WAL and one fdatasync,
// in turns within one run (target: 1.3 times), without an indexer.
func BenchmarkAppend(b *testing.B) {
	s, _ := testStore(b)
	l := fill(b, s, 2000)
	floor := newFloor(b)
	text := strings.Repeat("words of a new message ", 44)
	var ours, theirs []time.Duration
	for b.Loop() {
		began := time.Now()
		say(b, s, l, text)
		middle := time.Now()
		floor.write(b)
		ours, theirs = append(ours, middle.Sub(began)), append(theirs, time.Since(middle))
	}
	b.ReportMetric(float64(median(ours).Microseconds()), "µs-p50")
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "ratio")
}

// BenchmarkAppend64 is the rate of 64 sessions at once (target: 8 times the rate of one).
func BenchmarkAppend64(b *testing.B) {
	s, _ := testStore(b)
	fill(b, s, 2000)
	leases := make([]Lease, 64)
	for i := range leases {
		leases[i] = conversation(b, s)
	}
	text := strings.Repeat("words of a new message ", 44)
	began := time.Now()
	for range 200 {
		say(b, s, leases[0], text)
	}
	one := float64(200) / time.Since(began).Seconds()
	const each = 50
	began = time.Now()
	for b.Loop() {
		var all sync.WaitGroup
		for _, l := range leases {
			all.Go(func() {
				for range each {
					say(b, s, l, text)
				}
			})
		}
		all.Wait()
	}
	many := float64(b.N*each*len(leases)) / time.Since(began).Seconds()
	b.ReportMetric(many, "rows/s")
	b.ReportMetric(many/one, "ratio")
}

// floor is the least that a durable append can cost on this disk.
type floor struct {
	file  *os.File
	frame []byte
	at    int64
}

const (
	frameSize  = 24 + 4096
	floorSpace = 1000 * frameSize
)

func newFloor(b *testing.B) *floor {
	file, err := os.Create(b.TempDir() + "/floor")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	if _, err := file.Write(make([]byte, floorSpace)); err != nil {
		b.Fatal(err)
	}
	return &floor{file: file, frame: make([]byte, frameSize)}
}

func (f *floor) write(b *testing.B) {
	for range 6 {
		if _, err := f.file.WriteAt(f.frame, f.at); err != nil {
			b.Fatal(err)
		}
		f.at = (f.at + frameSize) % floorSpace
	}
	if err := unix.Fdatasync(int(f.file.Fd())); err != nil {
		b.Fatal(err)
	}
}
