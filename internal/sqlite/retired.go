package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// A last close removes the -shm by path a moment before it closes the descriptor, so one scan may see a harmless
// deletion.
const (
	retiredScans = 3
	retiredPause = 50 * time.Millisecond
)

// refuseRetired refuses a database whose -wal or -shm was deleted while some process still has it open: that
// process goes on writing into nameless files, and a second -wal beside it would split the database in two. A scan
// of all descriptors costs ten to twenty milliseconds, so it is made only where something points to it: a
// database in WAL without its sidecars, or an I/O error while opening. Where /proc cannot be read, nothing is
// known and nothing is refused.
func (f *File) refuseRetired(ctx context.Context, cause error) error {
	var pids []int
	for scan := range retiredScans {
		if scan > 0 && sleep(ctx, retiredPause) != nil {
			break
		}
		if pids = f.retiredHolders(); len(pids) == 0 {
			return nil
		}
	}
	who := strings.Trim(fmt.Sprint(pids), "[]")
	return f.refuse(LostWAL, problem.Damaged, "lost its -wal or -shm while it was open: process "+who+" still writes into the deleted files",
		"stop process "+who+" first; what it wrote since then exists only as long as it runs", cause)
}

// retiredHolders lists the processes that hold a sidecar which is not the one on disk. The name alone proves
// nothing: some file systems call living files deleted.
func (f *File) retiredHolders() []int {
	found, err := procfs.OpenFiles(func(target string) bool { return target == f.walPath || target == f.shmPath })
	if err != nil {
		f.log.Debug("descriptors cannot be scanned", "path", f.path, "error", err)
		return nil
	}
	var pids []int
	for _, fd := range found {
		now, err := statInode(fd.Target)
		if fd.Deleted && err == nil && !now.is(fd.Dev, fd.Ino) && !slices.Contains(pids, fd.PID) {
			pids = append(pids, fd.PID)
		}
	}
	return pids
}

// sidecarMissing is the cheap sign that a scan is worth its price.
func (f *File) sidecarMissing() bool {
	for _, path := range []string{f.walPath, f.shmPath} {
		if node, err := statInode(path); err == nil && node == (inode{}) {
			return true
		}
	}
	return false
}
