package reaper

import (
	"os/exec"
	"sync"
)

// family is the children that this process has started and somebody waits for. The kernel keeps one list of
// children for a process, however many Reapers it has, so this is one too: whoever ends or reaps what is unknown
// must know them all.
type family struct {
	// mu is held while a process is forked and entered, so that who looks never meets one that is not entered yet.
	mu    sync.Mutex
	known map[int]*exec.Cmd
}

var children = &family{known: map[int]*exec.Cmd{}}

// fork starts a process and enters it.
func (f *family) fork(cmd *exec.Cmd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	f.known[cmd.Process.Pid] = cmd
	return nil
}

// forget is for the one who has waited for the process. The pid may be another child's by then.
func (f *family) forget(cmd *exec.Cmd) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[cmd.Process.Pid] == cmd {
		delete(f.known, cmd.Process.Pid)
	}
}
