package procfs

import (
	"os"
	"strconv"
	"strings"
)

// FD is one open descriptor. Dev and Ino are zero where the file could not be looked at.
type FD struct {
	PID, FD  int
	Target   string // what the link says, without the mark of a deleted file
	Deleted  bool
	Dev, Ino uint64
}

const deletedMark = " (deleted)"

// OpenFiles lists the descriptors, of all processes that can be seen, whose target satisfies match. The target
// is given to match without the mark of a deleted file.
func OpenFiles(match func(target string) bool) ([]FD, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	var found []FD
	for _, pid := range all {
		found = append(found, openFiles(pid, match)...)
	}
	return found, nil
}

func openFiles(pid int, match func(string) bool) []FD {
	dir, err := os.Open(path(pid, "fd"))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var found []FD
	for _, fd := range numbers(names) {
		link := path(pid, "fd/"+strconv.Itoa(fd))
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		target, deleted := strings.CutSuffix(target, deletedMark)
		if !match(target) {
			continue
		}
		dev, ino := inode(link)
		found = append(found, FD{PID: pid, FD: fd, Target: target, Deleted: deleted, Dev: dev, Ino: ino})
	}
	return found
}
