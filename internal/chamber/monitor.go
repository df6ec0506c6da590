package chamber

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gatewayd/internal/procfs"
)

// scanEvery is how often the descriptors of all processes that may hold the store are looked at.
const scanEvery = 20 * time.Millisecond

// sideScans is in how many scans in a row the same descriptor of a deleted -wal or -shm must be seen: a last close
// removes the -shm by its path a moment before it closes the descriptor, and that is no fault.
const sideScans = 6

// warmScans is from how many looks at a process its usual number of descriptors is taken.
const warmScans = 25

// held is one descriptor of a file that has no name any more.
type held struct {
	pid, fd int
	ino     uint64
	target  string
}

// Monitor watches who holds the files of one store. It counts only what it saw since the episode began.
type Monitor struct {
	store string            // state.db, resolved
	who   *procfs.Newcomers // nobody else can have opened what is made here

	mu       sync.Mutex
	streak   map[held]int
	findings map[string]bool
	scans    int
	usual    map[int]int // by pid: the most descriptors in its first scans
	looks    map[int]int
	most     map[int]int
	quiet    bool // deleted files are what this episode makes
}

func newMonitor(store string) (m *Monitor, err error) {
	m = &Monitor{store: store, usual: map[int]int{}, looks: map[int]int{}, most: map[int]int{}}
	m.begin(false)
	m.who, err = procfs.NewNewcomers(m.watches)
	return m, err
}

// begin forgets what was seen before.
func (m *Monitor) begin(quiet bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streak, m.findings, m.scans, m.quiet = map[held]int{}, map[string]bool{}, 0, quiet
}

// run scans until ctx ends.
func (m *Monitor) run(ctx context.Context) {
	tick := time.NewTicker(scanEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.scan()
		}
	}
}

func (m *Monitor) watches(target string) bool {
	return target == m.store || target == m.store+"-wal" || target == m.store+"-shm"
}

func (m *Monitor) scan() {
	fds, err := m.who.OpenFiles(m.watches)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scans++
	if err != nil {
		m.findings[fmt.Sprintf("descriptors cannot be watched: %v", err)] = true
		return
	}
	seen, count := map[held]int{}, map[int]int{}
	for _, fd := range fds {
		count[fd.PID]++
		if fd.Deleted && !m.quiet {
			h := held{fd.PID, fd.FD, fd.Ino, fd.Target}
			seen[h] = m.streak[h] + 1
			if fd.Target == m.store || seen[h] >= sideScans {
				m.findings[fmt.Sprintf("pid %d holds a deleted %s (descriptor %d)", fd.PID, fd.Target, fd.FD)] = true
			}
		}
	}
	m.streak = seen
	for pid, n := range count {
		if m.looks[pid]++; m.looks[pid] <= warmScans {
			m.usual[pid] = max(m.usual[pid], n)
		}
		m.most[pid] = max(m.most[pid], n)
	}
}

// report gives what was found since begin.
func (m *Monitor) report() (findings []string, scans int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for f := range m.findings {
		findings = append(findings, f)
	}
	return findings, m.scans
}

// grown says how many descriptors a process had at once above its usual number, 0 for the one that was seen first.
func (m *Monitor) grown(pid, usual int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if usual == 0 {
		usual = m.usual[pid]
	}
	return m.most[pid] - usual
}

// heldNow lists who holds a deleted file of the store at this moment, by a single look.
func (m *Monitor) heldNow() ([]procfs.FD, error) {
	fds, err := procfs.OpenFiles(m.watches)
	var out []procfs.FD
	for _, fd := range fds {
		if fd.Deleted {
			out = append(out, fd)
		}
	}
	return out, err
}
