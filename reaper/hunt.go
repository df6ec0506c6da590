package reaper

import (
	"syscall"
	"time"

	"gatewayd/internal/procfs"
)

const (
	firstPause = 2 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// hunt is the killing of one tree in rounds. As long as a round meets processes that it has not signalled before,
// the next one follows as soon as these are dead: a tree that forks is only caught by being quicker. When there is
// nothing new, the rounds become rare, since then somebody cannot die.
type hunt struct {
	rounds int
	pause  time.Duration
	seen   map[procfs.Stat]bool
}

func newHunt() *hunt { return &hunt{pause: firstPause, seen: map[procfs.Stat]bool{}} }

// term asks the processes to end, and waits for them until the grace is over.
func (h *hunt) term(targets []procfs.Stat, grace time.Duration) {
	h.rounds++
	release(targets, syscall.SIGTERM, grace)
}

// kill ends the processes and waits a moment for their deaths.
func (h *hunt) kill(targets []procfs.Stat) {
	h.rounds++
	fresh := false
	for _, target := range targets {
		key := procfs.Stat{PID: target.PID, Start: target.Start}
		fresh = fresh || !h.seen[key]
		h.seen[key] = true
	}
	if fresh {
		h.pause = firstPause
	} else {
		h.pause = min(2*h.pause, lastPause)
	}
	release(targets, syscall.SIGKILL, h.pause)
}

func release(targets []procfs.Stat, sig syscall.Signal, limit time.Duration) {
	fds := signalAll(targets, sig)
	waitAll(fds, limit)
	for _, fd := range fds {
		closeFD(fd)
	}
}
