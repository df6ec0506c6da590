package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

func TestTheRoomOfResultsFollowsTheWindow(t *testing.T) {
	for window, want := range map[int]Budget{
		0: {100_000, 200_000}, 1_000_000: {100_000, 200_000}, 128_000: {76_800, 153_600}, 64_000: {38_400, 76_800}, 8_192: {8_000, 16_000}, -1: {100_000, 200_000},
	} {
		if got := BudgetFor(window); got != want {
			t.Errorf("a window of %d gives %+v, want %+v", window, got, want)
		}
	}
}

func TestALargeResultIsKeptInAFileAndItsRowSaysWhere(t *testing.T) {
	spill := &Spill{Dir: filepath.Join(t.TempDir(), "spill")}
	room := NewRoom(BudgetFor(0), spill)
	call := Call{Session: "s/../1", Turn: "turn_x", ID: "call_1", Name: "search_files"}
	small, large := strings.Repeat("€", MaxResult), strings.Repeat("line €\n", 40_000)
	if got := room.Fit(call, small); got != small {
		t.Errorf("what fits was changed: %d bytes", len(got))
	}
	got := room.Fit(call, large)
	_, path, ok := strings.Cut(got, "280000 characters, is in ")
	path, _, _ = strings.Cut(path, ";")
	if !ok || utf8.RuneCountInString(got) > previewSize+400 || !strings.HasPrefix(got, "line €\n") {
		t.Fatalf("%.300q", got)
	}
	whole, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || string(whole) != large || info.Mode() != 0o600 || !spill.Holds(call.Session, path) || spill.Holds("s2", path) {
		t.Errorf("%s: %d bytes, %v, %v", path, len(whole), info.Mode(), err)
	}
	if err := spill.Drop(call.Session, "another"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("the results of a session that is gone are still there")
	}
}

// A turn's results together are bounded, whoever runs beside whom; a page of a file is cut and never kept elsewhere.
func TestTheResultsOfATurnAreBoundedTogether(t *testing.T) {
	room := NewRoom(Budget{Result: 10_000, Turn: 20_000}, &Spill{Dir: t.TempDir()})
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		sum int
	)
	for i := range 30 {
		wg.Go(func() {
			text := room.Fit(Call{Session: "s", Turn: "t", ID: fmt.Sprint(i), Name: "any"}, strings.Repeat("x", 9_000))
			mu.Lock()
			defer mu.Unlock()
			sum += len(text)
		})
	}
	wg.Wait()
	if most := 20_000 + 30*2_000; sum > most {
		t.Errorf("%d characters in one turn, at most %d were expected", sum, most)
	}
	page := room.Fit(Call{Name: readFileName}, strings.Repeat("y", 9_000))
	if strings.Contains(page, "read_file pages") || len(page) > 2_000 {
		t.Errorf("%.200q", page)
	}
	if got := NewRoom(Budget{Result: 100, Turn: 100}, nil).Fit(Call{Name: "any"}, strings.Repeat("z", 5_000)); len(got) > 1_700 {
		t.Errorf("without a place to keep it: %d bytes", len(got))
	}
}

func TestKeptResultsAreBoundedByAgeAndBytes(t *testing.T) {
	spill := &Spill{Dir: t.TempDir(), MaxBytes: 10_000, MaxAge: time.Hour}
	keep := func(session, id string, size int, age time.Duration) string {
		t.Helper()
		path, err := spill.keep(Call{Session: session, ID: id}, strings.Repeat("x", size))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := keep("a", "old", 10, 2*time.Hour)
	first, second, third := keep("b", "1", 6_000, 3*time.Minute), keep("b", "2", 3_000, 2*time.Minute), keep("c", "3", 3_000, time.Minute)
	if err := spill.Sweep(time.Now()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{old: false, filepath.Dir(old): false, first: false, second: true, third: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v", path, err == nil)
		}
	}
	huge := keep("d", "4", 50_000, 0)
	if _, err := os.Stat(huge); err != nil {
		t.Error("the newest must stay: a row is about to name it")
	}
}

func TestAResultThatCannotBeKeptSaysSo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := NewRoom(Budget{Result: 2_000, Turn: 2_000}, &Spill{Dir: filepath.Join(file, "spill")}).Fit(Call{Name: "any"}, strings.Repeat("x", 5_000))
	if !strings.Contains(got, "5000 characters, could not be kept") {
		t.Error(got)
	}
}
