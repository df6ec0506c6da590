package procfs

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"gatewayd/internal/mutation"
)

// FD is one open descriptor.
type FD struct {
	PID, FD  int
	Target   string // what the link says, without the mark of a deleted file
	Deleted  bool   // the link has that mark, which some file systems put on living files too
	Dev, Ino uint64 // of the open file; zero with Err
	Err      error  // why the file could not be looked at, although the descriptor is there
}

// Scan is what one look at all processes found. Hidden are the processes that are there and may not be looked
// into: another user's, or one that made itself undumpable.
type Scan struct {
	Files  []FD
	Hidden []int
}

const (
	deletedMark = " (deleted)"
	maxTarget   = 4096 + len(deletedMark) // PATH_MAX
)

// OnDisk tells a name in a file system from sockets, pipes, devices and what the kernel makes up.
func OnDisk(target string) bool {
	return strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/dev/") &&
		!strings.HasPrefix(target, "/sys/") && !strings.HasPrefix(target, root)
}

// OpenFiles is the Files of ScanFiles.
func OpenFiles(match func(target string) bool) ([]FD, error) {
	scan, err := ScanFiles(match)
	return scan.Files, err
}

// ScanFiles lists the descriptors of all processes whose target satisfies match. The target is given to match
// without the mark of a deleted file. A descriptor or process that went away meanwhile is left out, and nothing
// else is: what cannot be looked at is listed with its error. It reads one link per open file of the machine, one
// to twenty milliseconds.
func ScanFiles(match func(target string) bool) (Scan, error) {
	all, err := pids()
	if err != nil {
		return Scan{}, err
	}
	return scanOf(all, match), nil
}

func scanOf(pids []int, match func(target string) bool) (found Scan) {
	for _, pid := range pids {
		if err := found.process(pid, match); err != nil && !vanished(err) {
			found.Hidden = append(found.Hidden, pid)
		}
	}
	return found
}

// OwnFiles is OpenFiles for this process alone.
func OwnFiles(match func(target string) bool) ([]FD, error) {
	var found Scan
	err := found.process(os.Getpid(), match)
	return found.Files, err
}

func (s *Scan) process(pid int, match func(string) bool) error {
	dir, err := os.Open(path(pid, "fd"))
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	buf := make([]byte, maxTarget)
	for _, fd := range numbers(names) {
		if read := s.descriptor(pid, fd, dir, buf, match); read != nil && !vanished(read) {
			err = read
		}
	}
	return err
}

// look asks for the file behind a descriptor; a test puts errors here.
var look = inodeIn

func (s *Scan) descriptor(pid, fd int, dir *os.File, buf []byte, match func(string) bool) error {
	link := strconv.Itoa(fd)
	target, err := readlinkIn(dir, link, buf)
	if err != nil {
		return err
	}
	target, deleted := strings.CutSuffix(target, deletedMark)
	if !match(target) {
		return nil
	}
	dev, ino, err := look(dir, link)
	if vanished(err) || err != nil && mutation.On("scan-eacces-is-gone") {
		return nil
	}
	s.Files = append(s.Files, FD{PID: pid, FD: fd, Target: target, Deleted: deleted, Dev: dev, Ino: ino, Err: err})
	return nil
}

// vanished: the descriptor was closed or its process ended. Only these two prove that nobody holds the file.
func vanished(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH)
}

// Command gives the command line of a process, its words joined by spaces. It is empty for a kernel thread and for
// a zombie.
func Command(pid int) (string, error) {
	data, err := read(pid, "cmdline")
	if err != nil {
		return "", err
	}
	return string(bytes.ReplaceAll(bytes.TrimRight(data, "\x00"), []byte{0}, []byte(" "))), nil
}
