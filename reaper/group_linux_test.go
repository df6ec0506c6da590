package reaper

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/procfs"
)

func TestAGroupIsReachedThroughItsDeadLeader(t *testing.T) {
	leader := -1
	cmd := exec.Command("sh", "-c", "sleep 90.9100 >/dev/null 2>&1 & echo $!")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, PidFD: &leader}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(leader)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	member, err := procfs.ReadStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := openVerified(member.PID, member.Start)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(fd)
	if err := unix.PidfdSendSignal(leader, 0, nil, pidfdSignalGroup); errors.Is(err, unix.EINVAL) {
		signalPidfd(fd, syscall.SIGKILL)
		t.Skip("SKIPPED: this kernel is older than 6.9 and knows no groups of a pidfd; chains of forks are left to the rounds")
	}
	killGroup(leader)
	if waitAll([]int{fd}, time.Minute) != 0 {
		t.Error("the member of the group lives")
	}
}
