package lastrun

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var storm = Storm{Limit: 5, Window: 2 * time.Minute, First: 5 * time.Second, Longest: 300 * time.Second}

// life is one run: how long after the end of the one before it was started, how long it lasted after its wait, and how it ended.
type life struct {
	pause, lasts time.Duration
	clean        bool
}

// waits plays lives in one home, each in a process of its own as far as the file knows, and gives what each was made to wait.
func waits(t *testing.T, lives ...life) (seconds []int) {
	t.Helper()
	dir, now := t.TempDir(), time.Unix(1e9, 0)
	for _, l := range lives {
		now = now.Add(l.pause)
		starts, start, err := Arrive(dir, now, storm)
		if err != nil {
			t.Fatal(err)
		}
		seconds = append(seconds, int(start.Wait.Seconds()))
		now = start.Until().Add(l.lasts)
		if l.clean {
			if err := starts.Clean(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return seconds
}

func TestStartsThatFollowDeathsTooOftenWaitLongerEachTime(t *testing.T) {
	dies := life{pause: 5 * time.Second, lasts: time.Second}
	if got, want := waits(t, slices.Repeat([]life{dies}, 15)...), []int{0, 0, 0, 0, 0, 0, 5, 10, 20, 40, 80, 160, 300, 300, 300}; !slices.Equal(got, want) {
		t.Errorf("waited %v, want %v", got, want)
	}
	lived := append(slices.Repeat([]life{dies}, 7), life{pause: 5 * time.Second, lasts: 2 * time.Minute}, dies)
	if got := waits(t, lived...); got[7] != 10 || got[8] != 0 {
		t.Errorf("after a run that lasted: %v", got)
	}
	rare := life{pause: 5 * time.Second, lasts: 30 * time.Second}
	if got := waits(t, slices.Repeat([]life{rare}, 10)...); slices.Max(got) != 0 {
		t.Errorf("deaths that are no storm: %v", got)
	}
}

func TestStartsThatWereAskedForNeverWait(t *testing.T) {
	stopped := life{pause: 100 * time.Millisecond, lasts: time.Second, clean: true}
	if got := waits(t, slices.Repeat([]life{stopped}, 30)...); slices.Max(got) != 0 {
		t.Errorf("waited %v", got)
	}
	dies := life{pause: time.Second, lasts: time.Second}
	if got := waits(t, append(slices.Repeat([]life{dies}, 8), stopped, dies)...); got[9] != 0 {
		t.Errorf("a stop does not end the storm: %v", got)
	}
}

func TestAListOfStartsThatCannotBeReadIsBegunAnewAndSaid(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, startsName), []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, start, err := Arrive(dir, time.Now(), storm); err == nil || start.Wait != 0 {
		t.Errorf("%v %+v", err, start)
	}
	if _, ok := LastStart(dir); !ok {
		t.Error("it is not begun anew")
	}
	if _, start, err := Arrive(filepath.Join(dir, "gone"), time.Now(), storm); err == nil || start.Wait != 0 {
		t.Errorf("a list that cannot be written: %v %+v", err, start)
	}
}

// A clock that was set back leaves starts in the future: they are no reason to wait.
func TestStartsOfALaterClockDoNotCount(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1e9, 0)
	for range 6 {
		if _, _, err := Arrive(dir, now, storm); err != nil {
			t.Fatal(err)
		}
	}
	if _, start, _ := Arrive(dir, now.Add(-time.Hour), storm); start.Wait != 0 {
		t.Errorf("%+v", start)
	}
}
