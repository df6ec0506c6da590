package procfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// holding starts a process that holds a file until the test ends, or until it is told to.
func holding(t *testing.T, file *os.File) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Start(); err != nil {
		t.Skipf("SKIPPED: cat is not here: %v", err)
	}
	end = func() { _ = in.Close(); _ = cmd.Wait() }
	t.Cleanup(end)
	return cmd, end
}

func TestNewcomersAreThisProcessHoldersAndWhoeverBeganSince(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "held"))
	if err != nil {
		t.Fatal(err)
	}
	match := func(target string) bool { return target == file.Name() }
	before, _ := holding(t, file)
	elder, _ := holding(t, os.Stdin)
	n, err := NewNewcomers(match)
	if err != nil {
		t.Fatal(err)
	}
	since, end := holding(t, file)
	seen := func() map[int]bool {
		found, err := n.OpenFiles(match)
		if err != nil {
			t.Fatal(err)
		}
		who := map[int]bool{}
		for _, fd := range found {
			who[fd.PID] = true
		}
		return who
	}
	if who := seen(); len(who) != 3 || !who[os.Getpid()] || !who[before.Process.Pid] || !who[since.Process.Pid] {
		t.Errorf("seen: %v", who)
	}
	end()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if who := seen(); len(who) != 1 || !who[before.Process.Pid] {
		t.Errorf("seen after the end of two: %v", who)
	}
	if present(n.elders, os.Getpid()) || !present(n.elders, elder.Process.Pid) {
		t.Error("the elders are others than they should be")
	}
}
