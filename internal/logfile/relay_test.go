package logfile

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipe is a real one; its end for reading is read by nobody yet.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Turns write into the log. Whoever sleeps at its other end holds up none of them, and hears later what it missed.
func TestALogThatNobodyReadsHoldsUpNobodyAndTellsWhatIsMissing(t *testing.T) {
	r, w := pipe(t)
	relay := NewRelay(w, func(lost int, _ time.Duration) { fmt.Fprintf(w, "lost %d\n", lost) })
	const writers, each = 8, 500
	body := strings.Repeat("x", 200) // 800 KB in all; the pipe takes 64, the relay 256
	began := time.Now()
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			for i := range each {
				fmt.Fprintf(relay, "%d %d %s\n", n, i, body)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 10*time.Second { // each line for itself would be 400 s
		t.Errorf("the writers were held up for %v", took)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(r); in.Scan(); {
			lines <- in.Text()
		}
	}()
	fmt.Fprintln(relay, "dropped, or not: the pipe may have moved")
	got, lost, last := 0, 0, [writers]int{}
	for line := range lines {
		var n, i int
		if k, _ := fmt.Sscanf(line, "lost %d", &n); k == 1 {
			lost += n
		} else if k, _ := fmt.Sscanf(line, "%d %d", &n, &i); k == 2 {
			if got++; i < last[n] {
				t.Errorf("line %d of writer %d came behind line %d", i, n, last[n])
			}
			last[n] = i
		} else {
			got++
		}
		if got+lost == writers*each+1 {
			break
		}
	}
	if lost == 0 || got < MaxWaiting/256 {
		t.Errorf("%d lines came and %d were told as lost", got, lost)
	}
	relay.Flush(time.Minute)
	go fmt.Fprintln(relay, "once more")
	if line := <-lines; line != "once more" {
		t.Errorf("after all that it says %q", line)
	}
}

// writing is a writer that a test makes up.
type writing func(line []byte) (int, error)

func (w writing) Write(line []byte) (int, error) { return w(line) }

// What a process says last is out when it ends.
func TestALineIsOutWhenItsWriteReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := ""
		relay := NewRelay(writing(func(line []byte) (int, error) {
			time.Sleep(relayPatience / 2)
			said += string(line)
			return len(line), nil
		}), nil)
		fmt.Fprint(relay, "last words")
		if said != "last words" {
			t.Errorf("%q", said)
		}
	})
}
