package reaper

import (
	"syscall"

	"golang.org/x/sys/unix"

	"gatewayd/internal/procfs"
)

// descendants gives everything below the roots that still runs, parents before children. A tree that forks while
// it is looked at may hide a process once; whoever ends a tree looks again until nothing is left.
func descendants(all []procfs.Stat, roots ...int) []procfs.Stat {
	below := make(map[int][]procfs.Stat, len(all))
	for _, stat := range all {
		below[stat.PPID] = append(below[stat.PPID], stat)
	}
	var found []procfs.Stat
	seen := make(map[int]bool, len(roots))
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		for _, stat := range below[queue[0]] {
			queue = append(queue, stat.PID)
			if !stat.Dead() {
				found = append(found, stat)
			}
		}
	}
	return found
}

// offspring finds the same by walking down from the root. It costs only the size of the tree, so it is quick enough
// to catch processes that live for a millisecond; it may miss more than descendants does.
func offspring(root int) []procfs.Stat {
	var found []procfs.Stat
	pids, err := procfs.Children(root)
	if err != nil {
		return nil
	}
	for _, pid := range pids {
		stat, err := procfs.ReadStat(pid)
		if err != nil || stat.Dead() {
			continue
		}
		found = append(append(found, stat), offspring(pid)...)
	}
	return found
}

// signalAll signals each of the processes, if it still is the one that was seen, and gives their pidfds, for the
// caller to wait on and to close.
func signalAll(targets []procfs.Stat, sig syscall.Signal) []int {
	fds := make([]int, 0, len(targets))
	for _, target := range targets {
		fd, err := openVerified(target.PID, target.Start)
		if err != nil {
			continue
		}
		fds = append(fds, fd)
		if sig == syscall.SIGKILL && target.PGID == target.PID {
			killGroup(fd)
		}
		_ = signalPidfd(fd, sig)
		if sig == syscall.SIGTERM {
			_ = signalPidfd(fd, syscall.SIGCONT) // a stopped process takes its SIGTERM only when it goes on
		}
	}
	return fds
}

// pidfdSignalGroup (Linux 6.9) reaches the process group that is named after the process of the pidfd, in one step
// and with those that are being forked. It works also when that process is long dead, while its group lives.
const pidfdSignalGroup = 1 << 2

// killGroup catches what no list can: in a chain of processes that each fork a successor and exit, the one that was
// seen is always gone. Older kernels refuse it, and leave such chains to the rounds. A group is always inside one
// session, and sessions of a tree are founded in the tree, so nobody else is hit.
func killGroup(leader int) {
	_ = unix.PidfdSendSignal(leader, unix.SIGKILL, nil, pidfdSignalGroup)
}
