package reaper_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"gatewayd/reaper"
)

// end is one way to end, and what the record must say of it.
type end struct {
	script       string
	code, signal int
	reason       reaper.Reason
}

var ends = []end{
	{"exit 0", 0, 0, reaper.Exited},
	{"exit 1", 1, 0, reaper.Exited},
	{"exit 75", 75, 0, reaper.Exited},
	{"exit 127", 127, 0, reaper.Exited},
	{"exit 137", 137, 0, reaper.Exited},
	{"exit 143", 143, 0, reaper.Exited},
	{"exit 255", 255, 0, reaper.Exited},
	{"kill -TERM $$", -1, 15, reaper.Signaled},
	{"kill -KILL $$", -1, 9, reaper.Signaled},
	{"kill -HUP $$", -1, 1, reaper.Signaled},
	{"kill -PIPE $$", -1, 13, reaper.Signaled},
	{"ulimit -c 0; kill -SEGV $$", -1, 11, reaper.Signaled},
	{"(exit 3) & wait $!; exit 9", 9, 0, reaper.Exited},
}

// tryEnds runs each end several times, eight at once, and gives what was wrong.
func tryEnds(r *reaper.Reaper, run func(reaper.Spec) (reaper.Record, error), times int) []string {
	var mu sync.Mutex
	var wrong []string
	slots := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i := range times * len(ends) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			want := ends[i%len(ends)]
			spec := shell(fmt.Sprintf("end-%d", i), want.script)
			spec.Lifetime = reaper.Lifetime(i / len(ends) % 2)
			got, err := run(spec)
			if err == nil && got.Code == want.code && got.Signal == want.signal && got.Reason == want.reason {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			wrong = append(wrong, fmt.Sprintf("%q: %v %+v", want.script, err, got))
		})
	}
	all.Wait()
	return wrong
}

func TestExitCodesAndSignalsAreExact(t *testing.T) {
	for _, spares := range []int{-1, 2} {
		t.Run(fmt.Sprintf("spares %d", spares), func(t *testing.T) {
			r := newReaper(t, func(o *reaper.Options) { o.Spares = spares })
			running(t, r)
			run := func(spec reaper.Spec) (reaper.Record, error) {
				p, err := r.Start(t.Context(), spec)
				if err != nil {
					return reaper.Record{}, err
				}
				return wait(t, p), nil
			}
			for _, line := range tryEnds(r, run, 5) {
				t.Error(line)
			}
			records, err := r.Records()
			if err != nil || len(records) != 5*len(ends) {
				t.Errorf("%d records on disk, %v", len(records), err)
			}
		})
	}
}

func TestTheRecordOnDiskIsTheOneThatWasToldAndCanBeForgotten(t *testing.T) {
	dir := t.TempDir()
	r := newReaper(t, in(dir))
	p := start(t, r, shell("told", "exec sh -c 'exit 5'"))
	told := wait(t, p)
	again, err := newReaper(t, in(dir)).Adopt("told")
	if err != nil {
		t.Fatal(err)
	}
	if got := wait(t, again); !got.Ended.Equal(told.Ended) || got.Code != 5 || got.Child != p.Child() || got.Keeper != p.Keeper() {
		t.Errorf("told %+v, read %+v", told, got)
	}
	if told.Started.IsZero() || told.Ended.Before(told.Started) || told.MaxRSS <= 0 {
		t.Errorf("times or sizes are wrong: %+v", told)
	}
	if err := r.Forget("told"); err != nil {
		t.Fatal(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("left in the directory: %v", files)
	}
}
