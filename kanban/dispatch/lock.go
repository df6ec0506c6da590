package dispatch

import (
	"os"
	"strconv"
	"strings"

	"gatewayd/internal/procfs"
)

// cutLock takes "<host>:<pid>" apart.
func cutLock(lock string) (host string, pid int, ok bool) {
	i := strings.LastIndexByte(lock, ':')
	if i < 0 {
		return "", 0, false
	}
	pid, err := strconv.Atoi(lock[i+1:])
	return lock[:i], pid, err == nil && pid > 0
}

// claimerLives reports whether another process by the claimer's pid lives on this host. It may be a stranger with
// a recycled pid; then the claim's own time ends the wait.
func claimerLives(lock string) bool {
	_, pid, ok := cutLock(lock)
	if !ok || pid == os.Getpid() {
		return false
	}
	stat, err := procfs.ReadStat(pid)
	return err == nil && !stat.Dead()
}
