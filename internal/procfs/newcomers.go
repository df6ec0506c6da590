package procfs

import (
	"os"
	"slices"
)

// Newcomers are this process and all that began after a moment. Whoever looks again and again at who holds files that
// it has made itself need not look at the hundreds of processes that were there before. It is for one goroutine.
type Newcomers struct {
	elders []int // sorted; a pid that is used again is no elder's any more
}

// NewNewcomers takes everybody who is there now for an elder, but this process and those who hold a file that match
// knows.
func NewNewcomers(match func(target string) bool) (*Newcomers, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	held, err := ScanFiles(match)
	if err != nil {
		return nil, err
	}
	holders := append(held.Hidden, os.Getpid())
	for _, fd := range held.Files {
		holders = append(holders, fd.PID)
	}
	slices.Sort(all)
	return &Newcomers{elders: slices.DeleteFunc(all, func(pid int) bool { return slices.Contains(holders, pid) })}, nil
}

// OpenFiles is what the function of that name gives, of newcomers alone.
func (n *Newcomers) OpenFiles(match func(target string) bool) ([]FD, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	slices.Sort(all)
	n.elders = slices.DeleteFunc(n.elders, func(pid int) bool { return !present(all, pid) })
	scan := scanOf(slices.DeleteFunc(all, func(pid int) bool { return present(n.elders, pid) }), match)
	return scan.Files, nil
}

func present(sorted []int, pid int) bool {
	_, there := slices.BinarySearch(sorted, pid)
	return there
}
