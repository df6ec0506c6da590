package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Children lists the direct children of a process, zombies among them, over all its threads: the kernel keeps
// them with the thread that forked. A list that changes while it is read may miss an entry, so who must be
// certain that nothing is left asks wait, not this.
func Children(pid int) ([]int, error) {
	threads, err := os.ReadDir(path(pid, "task"))
	if err != nil {
		return nil, fmt.Errorf("list children of process %d: %w", pid, gone(err))
	}
	var found []int
	for _, thread := range threads {
		data, err := os.ReadFile(path(pid, "task/"+thread.Name()+"/children"))
		if err != nil {
			continue // the thread has ended; its children are with another
		}
		found = append(found, numbers(strings.Fields(string(data)))...)
	}
	return found, nil
}

// Environ gives the environment with which a process was started. It is empty for a zombie, for a kernel thread,
// and for the moment in which a process executes another program.
func Environ(pid int) ([]string, error) {
	data, err := read(pid, "environ")
	if err != nil {
		return nil, fmt.Errorf("read environment of process %d: %w", pid, err)
	}
	data = bytes.TrimSuffix(data, []byte{0})
	if len(data) == 0 {
		return nil, nil
	}
	return strings.Split(string(data), "\x00"), nil
}

// Tagged lists the living processes in whose environment key has this value. Processes of other users, whose
// environment is not ours to read, are left out.
func Tagged(key, value string) ([]int, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	entry := []byte(key + "=" + value)
	var found []int
	for _, pid := range all {
		if data, err := read(pid, "environ"); err == nil && holds(data, entry) {
			found = append(found, pid)
		}
	}
	return found, nil
}

func holds(environ, entry []byte) bool {
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(variable, entry) {
			return true
		}
	}
	return false
}
