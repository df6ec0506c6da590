package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gatewayd/internal/procfs"
)

// UnknownPID is the holder that cannot be named: the descriptors of the machine could not be read, so somebody may
// hold the file.
const UnknownPID = -1

// Holder is a process that has a database open.
type Holder struct {
	PID     int
	Command string // its command line, as far as it can be read
	Lost    bool   // what it has open of the -wal or -shm is not what lies beside the database
	Err     error  // why it counts although it could not be looked at
}

// String names the process for a person.
func (h Holder) String() string {
	if h.PID == UnknownPID {
		return fmt.Sprintf("an unknown process (%v)", h.Err)
	}
	name := h.Command
	if r := []rune(name); len(r) > holderName {
		name = string(r[:holderName]) + "…"
	}
	if name == "" {
		return fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("process %d (%s)", h.PID, name)
}

const holderName = 60 // of a command line, in an error

// Holders lists every other process that has the database, its -wal or its -shm open, by device and inode, or a
// generation of the three that lies there no more. It fails closed: a process that may not be looked into counts
// when its command line names this program, Hermes or the database, and where nothing can be read one unknown
// holder is given. It blocks for a look at all processes, one to twenty milliseconds, and while a child that was
// just forked seems to hold the file, at most forkWait.
func Holders(path string) ([]Holder, error) {
	full, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("look for holders of %s: %w", path, err)
	}
	others := func(h Holder) bool { return h.PID != os.Getpid() }
	for limit := time.Now().Add(forkWait); ; time.Sleep(forkPoll) {
		scan, err := procfs.ScanFiles(procfs.OnDisk)
		if err != nil {
			return []Holder{{PID: UnknownPID, Err: err}}, nil
		}
		found := keep(holdersIn(scan, full), others)
		if !slices.ContainsFunc(found, justForked) || time.Now().After(limit) {
			return found, nil
		}
	}
}

// A child that this process has just forked has all of its descriptors, and its command line, until it runs its program,
// which takes as long as the machine is busy. It is no holder; one that is there longer than this counts.
const (
	forkWait = 2 * time.Second
	forkPoll = 2 * time.Millisecond
)

func justForked(h Holder) bool {
	stat, err := procfs.ReadStat(h.PID)
	own, _ := procfs.Command(os.Getpid())
	return err == nil && stat.PPID == os.Getpid() && h.Command == own
}

func keep(all []Holder, want func(Holder) bool) []Holder {
	return slices.DeleteFunc(all, func(h Holder) bool { return !want(h) })
}

func isLost(h Holder) bool { return h.Lost }

// holdersIn judges a scan by what the paths name now.
func holdersIn(scan procfs.Scan, path string) []Holder {
	j := judge{path: path, here: [3]inode{nodeAt(path), nodeAt(path + "-wal"), nodeAt(path + "-shm")}}
	var found []Holder
	for pid, fds := range j.concerned(scan.Files) {
		if h, holds := j.process(pid, fds); holds {
			found = append(found, h)
		}
	}
	for _, pid := range scan.Hidden {
		if line, err := procfs.Command(pid); err == nil && mayHold(line, path) {
			found = append(found, Holder{PID: pid, Command: line, Err: errors.New("its open files may not be listed")})
		}
	}
	slices.SortFunc(found, func(a, b Holder) int { return cmp.Compare(a.PID, b.PID) })
	return found
}

// nodeAt takes a path that cannot be looked at for one that names nothing: whoever holds it counts.
func nodeAt(path string) inode {
	node, err := statInode(path)
	if err != nil {
		return inode{}
	}
	return node
}

// mayHold judges a process whose files are hidden by what it was started as.
func mayHold(command, path string) bool {
	for _, word := range []string{"gatewayd", "hermes", path} {
		if strings.Contains(command, word) {
			return true
		}
	}
	return false
}

// judge knows what lies on disk now: the database, its -wal and its -shm.
type judge struct {
	path string
	here [3]inode
}

// concerned gives the descriptors of each process that has one with something of the database, by name or by inode.
// It is one cheap pass over all that are open on the machine, for an open of each of a hundred boards.
func (j judge) concerned(all []procfs.FD) map[int][]procfs.FD {
	var byPID map[int][]procfs.FD
	for _, fd := range all {
		if strings.HasPrefix(fd.Target, j.path) || j.at(fd, 0) || j.at(fd, 1) || j.at(fd, 2) {
			if byPID == nil {
				byPID = map[int][]procfs.FD{}
			}
			byPID[fd.PID] = nil
		}
	}
	if byPID == nil {
		return nil
	}
	for _, fd := range all {
		if fds, in := byPID[fd.PID]; in {
			byPID[fd.PID] = append(fds, fd)
		}
	}
	return byPID
}

// process looks at the descriptors of one process. A name with the mark of a deleted file proves nothing and
// neither does a count of links: only a descriptor whose inode is not the one at its name is of a lost generation.
// A sidecar that was renamed is known by the name it kept a part of, in a process that holds the database too: a
// copy being made of it is not.
func (j judge) process(pid int, fds []procfs.FD) (h Holder, holds bool) {
	names := []string{j.path}
	h.PID = pid
	for _, fd := range fds {
		switch {
		case j.at(fd, 0):
			holds = true
			names = append(names, fd.Target) // in another mount namespace the path is another
		case j.at(fd, 1), j.at(fd, 2):
			holds = true
		}
	}
	for _, fd := range fds {
		if j.at(fd, 0) || j.at(fd, 1) || j.at(fd, 2) {
			continue
		}
		lost := j.sidecar(fd, names[:1], sameName) || len(names) > 1 && j.sidecar(fd, names, strings.HasPrefix)
		if lost || fd.Target == j.path { // also one that could not be looked at
			holds, h.Lost, h.Err = true, h.Lost || lost, cmp.Or(h.Err, fd.Err)
		}
	}
	if holds {
		h.Command, _ = procfs.Command(pid)
	}
	return h, holds
}

func (j judge) at(fd procfs.FD, part int) bool {
	return fd.Ino == j.here[part].ino && fd.Ino != 0 && fd.Err == nil && j.here[part].is(fd.Dev, fd.Ino)
}

func (j judge) sidecar(fd procfs.FD, names []string, match func(target, name string) bool) bool {
	for _, name := range names {
		if match(fd.Target, name+"-wal") || match(fd.Target, name+"-shm") {
			return true
		}
	}
	return false
}

func sameName(target, name string) bool { return target == name }

// sightings shares one look at the machine among opens that come close together: a hundred boards at start would
// otherwise pay a hundred. What is kept are descriptors with their inodes, judged anew at each open by what the
// paths name then. It could miss only a holder that opened the file after the look and lost it since, and then the
// sidecars that lie there now are younger than the look: for those it is made anew.
type sightings struct {
	mu   sync.Mutex
	at   time.Time
	scan procfs.Scan
	err  error
}

const sightingFor = 250 * time.Millisecond

var sighted sightings

// coarse is how far the kernel's clock for the birth of files may lag.
const coarse = 20 * time.Millisecond

// since gives a look that is not older than age and was begun after t.
func (s *sightings) since(t time.Time, age time.Duration) (procfs.Scan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) >= age || s.at.Before(t.Add(coarse)) {
		s.at = time.Now()
		s.scan, s.err = procfs.ScanFiles(procfs.OnDisk)
	}
	return s.scan, s.err
}
