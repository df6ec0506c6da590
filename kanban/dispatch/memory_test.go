package dispatch

import (
	"errors"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
)

func TestMemoryIsJudgedByWhatIsLeftAndByWaiting(t *testing.T) {
	c := config.Memory{Check: true, ElevatedPercent: 10, CriticalPercent: 4, ElevatedStall: 20, CriticalStall: 30}
	of := func(available int64, some, full float64) procfs.Memory {
		return procfs.Memory{Total: 1000 << 20, Available: available << 20, Some: some, Full: full}
	}
	for name, tc := range map[string]struct {
		m    procfs.Memory
		c    config.Memory
		want Reason
	}{
		"plenty":              {of(500, 0, 0), c, ""},
		"at the elevated one": {of(100, 19, 29), c, ""},
		"below it":            {of(99, 0, 0), c, MemoryElevated},
		"below the critical":  {of(39, 0, 0), c, MemoryCritical},
		"some wait":           {of(500, 20, 0), c, MemoryElevated},
		"all wait":            {of(500, 90, 30), c, MemoryCritical},
		"off":                 {of(1, 99, 99), config.Memory{}, ""},
	} {
		if got, why := JudgeMemory(tc.m, tc.c); got != tc.want || (got != "") != (why != "") {
			t.Errorf("%s: %q %q, want %q", name, got, why, tc.want)
		}
	}
}

func TestTightMemoryLetsOneCardStartAndNoMemoryNone(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	for range 3 {
		card(t, b, "sleep")
	}
	reading, broken := procfs.Memory{Total: 100, Available: 3}, error(nil)
	d := h.dispatcher(func(o *Options) { o.Memory = func() (procfs.Memory, error) { return reading, broken } })
	tick := func(later time.Duration) Report {
		d.mu.Lock()
		d.mem.at = time.Time{}
		d.mem.last = d.mem.last.Add(-later)
		d.mu.Unlock()
		r, err := d.Tick(t.Context())
		must(t, err)
		return r
	}
	r := tick(0)
	if s := d.Status(); len(r.Spawned) != 0 || r.Held[MemoryCritical] != 3 || s.Memory.Level != "critical" || s.Boards[0].Due == nil {
		t.Fatalf("critical: %d started, held %v, %+v", len(r.Spawned), r.Held, s.Memory)
	}
	reading.Available = 8
	if r = tick(0); len(r.Spawned) != 1 || r.Held[MemoryElevated] != 2 {
		t.Fatalf("elevated: %d started, held %v", len(r.Spawned), r.Held)
	}
	if r = tick(0); len(r.Spawned) != 0 {
		t.Fatalf("a second one started at once, %v", r.Held)
	}
	if r = tick(memoryPace); len(r.Spawned) != 1 {
		t.Fatalf("after a while %d started, held %v", len(r.Spawned), r.Held)
	}
	broken = errors.New("no meminfo")
	if r = tick(0); len(r.Spawned) != 1 || d.Status().Memory.Level != "unknown" {
		t.Fatalf("what cannot be read holds cards: %d started, held %v", len(r.Spawned), r.Held)
	}
}
