package homesocket

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A daemon in a container is pid 1. What it starts for a model must not come in as the person does.
func TestWhatPidOneStartedIsBelowIt(t *testing.T) {
	if os.Getenv("HOMESOCKET_FIRST") != "" && os.Getpid() == 1 {
		if err := firstRole(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("SKIPPED: no pid namespace can be made here (unshare: %v), so nothing is proven about pid 1", err)
	}
	first := exec.Command("unshare", "-pf", "--mount-proc", "--kill-child", os.Args[0], "-test.run=^"+t.Name()+"$")
	first.Env = append(os.Environ(), "HOMESOCKET_FIRST=yes")
	out, err := first.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "child true grandchild true self false") {
		t.Errorf("%v: %s", err, out)
	}
}

// firstRole asks about its child, its grandchild and itself.
func firstRole() error {
	child := exec.Command("sh", "-c", "sleep 60 & echo $!; wait")
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	var grandchild int
	if _, err := fmt.Fscan(out, &grandchild); err != nil {
		return err
	}
	below := func(pid int) bool { return Peer{PID: pid}.Below(os.Getpid()) }
	fmt.Printf("pid %d child %v grandchild %v self %v\n", os.Getpid(), below(child.Process.Pid), below(grandchild), below(1))
	return child.Process.Kill()
}
