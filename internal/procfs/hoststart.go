package procfs

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// HostStart is when this machine, or the container that this process is in, started: the start of pid 1 by the clock of
// now. It is the zero time where that cannot be read. A clock that was set since moves it, so it may only decide what is
// said of a process that is gone, never whether one is.
func HostStart() time.Time {
	text, err := os.ReadFile(root + "stat")
	first, ferr := ReadStat(1)
	if err != nil || ferr != nil {
		return time.Time{}
	}
	_, rest, ok := strings.Cut(string(text), "\nbtime ")
	line, _, _ := strings.Cut(rest, "\n")
	booted, err := strconv.ParseInt(line, 10, 64)
	if !ok || err != nil {
		return time.Time{}
	}
	return time.Unix(booted, 0).Add(time.Duration(first.Start) * (time.Second / ticksPerSecond))
}
