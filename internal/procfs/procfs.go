// Package procfs is the only reader of /proc. It owns what the rest of the program may know about processes:
// their state, who they are beyond a pid that the kernel hands out again, which files they hold, and what a
// directory is mounted on.
//
// Every answer is a snapshot of something that moves. A process that is gone gives an error that satisfies
// errors.Is(err, fs.ErrNotExist); a scan over all processes leaves out those that end while it looks, and those
// that another user owns and hides. All functions are safe for concurrent use. Where there is no /proc they fail
// and nothing is guessed.
package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

const root = "/proc/"

// ticksPerSecond is USER_HZ, in which stat gives times: 100 on every architecture that this program runs on.
const ticksPerSecond = 100

// read gives the contents of /proc/<pid>/<name>. A process that ends between open and read answers ESRCH,
// which is told as not existing, so that callers have one case and not two.
func read(pid int, name string) ([]byte, error) {
	data, err := os.ReadFile(path(pid, name))
	if err != nil {
		return nil, gone(err)
	}
	return data, nil
}

func path(pid int, name string) string {
	return root + strconv.Itoa(pid) + "/" + name
}

func gone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// pids lists the processes that /proc shows now.
func pids() ([]int, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list /proc: %w", err)
	}
	return numbers(names), nil
}

func numbers(names []string) []int {
	found := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			found = append(found, n)
		}
	}
	return found
}
