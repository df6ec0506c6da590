package sqlite

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// A last close removes the -shm by path a moment before it closes the descriptor, so one look may see a harmless
// deletion; and what a look shared with other opens saw may be over.
const (
	retiredScans = 5
	retiredPause = 50 * time.Millisecond
)

// refuseRetired refuses a database in WAL while some process, this one included, holds a -wal or -shm that is not
// the one beside it, or holds those beside it together with a database that was replaced. That process goes on
// writing into nameless files; a second -wal beside it splits the database in two, also when the second is there
// already because a third process made it. Where /proc cannot be read, nothing is known and nothing is refused.
//
// It is asked at each open. A look at the whole machine takes one to twenty milliseconds and is shared by opens that
// come within a quarter of a second: see sightings.
func (f *File) refuseRetired(ctx context.Context, cause error) error {
	if mutation.On("retired-generation-is-opened-beside") {
		return nil
	}
	found := f.retired(f.youngest(), sightingFor)
	for scan := 0; scan < retiredScans && len(found) > 0; scan++ {
		if scan > 0 && sleep(ctx, retiredPause) != nil {
			break
		}
		found = f.retired(time.Time{}, 0)
	}
	if len(found) == 0 {
		return nil
	}
	return f.refuse(LostWAL, problem.Damaged, "lost its -wal or -shm while it was open: "+names(found)+" still holds the files that were deleted, moved or replaced",
		"stop it first; what it wrote since then exists only as long as it runs, or in a capture beside the database", cause)
}

// retired lists who holds a lost generation, by a look that is not older than age and was begun after t.
func (f *File) retired(t time.Time, age time.Duration) []Holder {
	scan, err := sighted.since(t, age)
	if err != nil {
		f.log.Debug("descriptors cannot be scanned", "path", f.path, "error", err)
		scan = procfs.Scan{}
	}
	scan.Hidden = nil // that a process may hold something is no reason not to open a file
	found := keep(holdersIn(scan, f.path), isLost)
	if len(found) == 0 && own.lost(f.path) {
		found = []Holder{{PID: os.Getpid(), Lost: true}}
	}
	return found
}

func names(holders []Holder) string {
	var all []string
	for _, h := range holders {
		name := h.String()
		if h.PID == os.Getpid() {
			name = fmt.Sprintf("this program itself (process %d)", h.PID)
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// youngest is when the younger of the sidecars was made; one that is missing, or on a file system that does not
// keep the time, was made just now.
func (f *File) youngest() time.Time {
	var youngest time.Time
	for _, path := range []string{f.walPath, f.shmPath} {
		born, ok := birthOf(path)
		if !ok {
			return time.Now()
		}
		if born.After(youngest) {
			youngest = born
		}
	}
	return youngest
}
