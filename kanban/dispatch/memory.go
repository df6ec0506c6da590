package dispatch

import (
	"fmt"
	"time"

	"gatewayd/config"
	"gatewayd/internal/procfs"
)

const (
	// memoryFresh is how long a reading counts: ticks come in bursts, and the kernel's own figures are means of ten seconds.
	memoryFresh = time.Second
	// memoryPace is the time between two starts while memory is tight: as long as a start takes to show in those figures.
	memoryPace = 10 * time.Second
	// memoryAgain is when cards that wait for memory are looked at again, since nothing tells that there is some.
	memoryAgain = 5 * time.Second
)

// MemoryStatus is what the dispatcher last saw of memory.
type MemoryStatus struct {
	Level     string `json:"level"` // ok, elevated, critical, unknown, off
	Detail    string `json:"detail,omitempty"`
	Total     int64  `json:"total_bytes,omitempty"`
	Available int64  `json:"available_bytes,omitempty"`
}

// memory is the dispatcher's view of it.
type memory struct {
	at    time.Time
	hold  *Hold // without its times: reason, detail, remedy; nil = there is enough
	state MemoryStatus
	since time.Time // when the hold's reason began
	last  time.Time // the newest start
}

// JudgeMemory says what a reading means for starts: nothing (""), MemoryElevated or MemoryCritical, and why.
func JudgeMemory(m procfs.Memory, c config.Memory) (Reason, string) {
	share := 100 * float64(m.Available) / float64(max(m.Total, 1))
	where := "the machine"
	if m.Group != "" {
		where = "control group " + m.Group
	}
	little := fmt.Sprintf("%s has %.0f%% of %d MiB left", where, share, m.Total>>20)
	switch {
	case below(share, c.CriticalPercent):
		return MemoryCritical, little
	case above(m.Full, c.CriticalStall):
		return MemoryCritical, fmt.Sprintf("all tasks waited for memory in %.0f%% of the last 10 s", m.Full)
	case below(share, c.ElevatedPercent):
		return MemoryElevated, little
	case above(m.Some, c.ElevatedStall):
		return MemoryElevated, fmt.Sprintf("tasks waited for memory in %.0f%% of the last 10 s", m.Some)
	}
	return "", ""
}

func below(share float64, limit int) bool { return limit > 0 && share < float64(limit) }
func above(share float64, limit int) bool { return limit > 0 && share >= float64(limit) }

// lookAtMemory reads it, if a card could start and the last reading is old.
func (d *Dispatcher) lookAtMemory(now time.Time) {
	if !d.tuned().Kanban.Memory.Check {
		d.mem.state = MemoryStatus{Level: "off"}
		return
	}
	if !d.mem.at.IsZero() && now.Sub(d.mem.at) < memoryFresh {
		return
	}
	d.mem.at = now
	reading, err := d.o.Memory()
	if err != nil {
		d.mem.hold, d.mem.state = nil, MemoryStatus{Level: "unknown", Detail: err.Error()}
		return
	}
	d.mem.take(reading, d.tuned().Kanban.Memory, now)
}

// take keeps the first moment of a level while it lasts.
func (m *memory) take(reading procfs.Memory, c config.Memory, now time.Time) {
	reason, why := JudgeMemory(reading, c)
	m.state = MemoryStatus{Level: "ok", Detail: why, Total: reading.Total, Available: reading.Available}
	if reason == "" {
		m.hold = nil
		return
	}
	if m.hold == nil || m.hold.Reason != reason {
		m.since = now
	}
	m.hold = &Hold{Reason: reason, Detail: why, Since: when(m.since)}
	switch reason {
	case MemoryCritical:
		m.state.Level = "critical"
		m.hold.Detail, m.hold.Remedy = "no card starts: "+why, "free memory, or change kanban.memory"
	case MemoryElevated:
		m.state.Level = "elevated"
		m.hold.Detail = fmt.Sprintf("one card starts in %.0f s: %s", memoryPace.Seconds(), why)
		m.hold.Remedy = "wait, free memory, or change kanban.memory"
	}
}

// holds is what keeps a card from starting now. While memory is tight one start is let through, and the next one when
// its need can be seen.
func (m *memory) holds(now time.Time) *Hold {
	if m.hold == nil || m.hold.Reason == MemoryCritical {
		return m.hold
	}
	until := m.last.Add(memoryPace)
	if !now.Before(until) {
		return nil
	}
	hold := *m.hold
	hold.Until = &until
	return &hold
}
