package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Usage is what a process takes of the machine.
type Usage struct {
	State    byte
	Threads  int
	CPU      time.Duration // all threads, without children
	RSS, VMS int64         // bytes
	Created  time.Time     // to a hundredth of a second; zero where the boot time cannot be read
}

// ReadUsage reads it.
func ReadUsage(pid int) (Usage, error) {
	data, err := read(pid, "stat")
	if err != nil {
		return Usage{}, fmt.Errorf("read usage of process %d: %w", pid, err)
	}
	stat, err := parseStat(data)
	if err != nil {
		return Usage{}, fmt.Errorf("read usage of process %d: %w", pid, err)
	}
	r := fieldReader{fields: bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])}
	if len(r.fields) < 22 {
		return Usage{}, fmt.Errorf("read usage of process %d: too few fields", pid)
	}
	u := Usage{
		State: stat.State, CPU: time.Duration(stat.user+stat.system) * (time.Second / ticksPerSecond),
		Threads: int(r.number(20)), VMS: r.number(23), RSS: r.number(24) * int64(os.Getpagesize()),
	}
	if boot := bootTime(); !boot.IsZero() {
		u.Created = boot.Add(time.Duration(stat.Start) * (time.Second / ticksPerSecond))
	}
	return u, r.err
}

// bootTime is when the kernel started; it moves when the clock is set, so it is read each time.
func bootTime() time.Time {
	data, err := os.ReadFile(root + "stat")
	if err != nil {
		return time.Time{}
	}
	for line := range bytes.Lines(data) {
		if text, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			if sec, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil {
				return time.Unix(sec, 0)
			}
		}
	}
	return time.Time{}
}
