package dispatch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gatewayd/internal/procfs"
)

// lockTrouble says in a person's words why the dispatcher's lock cannot be taken, and what to do.
func lockTrouble(path string, err error) (detail, remedy string) {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		return dir + " is not a directory: something else is in its place", "move " + dir + " away; it is tried again by itself"
	case errors.Is(err, syscall.EISDIR):
		return path + " is a directory, not a lock file", "move " + path + " away; it is tried again by itself"
	case errors.Is(err, syscall.EROFS):
		return dir + " is on a read-only file system", "mount it writable, or name another place in kanban.root"
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%s is not writable for this user (uid %d)", path, os.Getuid()), "change the owner of " + dir + " and what is in it"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "there is no space left for " + path, "free some space"
	}
	return err.Error(), "make " + path + " writable"
}

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
