package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/mutation"
	"gatewayd/internal/vigil"
)

// machine is a systemd that is the first process of namespaces of its own: of processes, mounts, control groups, network, IPC and names. It
// has the programs of this machine, and nothing that it writes is seen or stays outside. Killing it ends all that it started.
type machine struct {
	t     *testing.T
	group string // its control group
	cmd   *exec.Cmd
	log   bytes.Buffer // complete when it has ended
	done  chan struct{}
	model *fakellm.Server // that answers at modelPort
}

// newMachine boots one, or skips aloud where none can be.
func newMachine(t *testing.T) *machine {
	t.Helper()
	for _, path := range []string{systemdProgram, "/usr/bin/nsenter", "/usr/bin/setpriv"} {
		if _, err := os.Stat(path); err != nil {
			t.Skip("SKIPPED: a real systemd is not tried here: ", err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a real systemd is not tried here: only root may start one")
	}
	m := &machine{t: t, done: make(chan struct{})}
	m.makeGroup()
	m.boot()
	m.until("systemd has booted", func() bool { said, _ := m.try("systemctl", "is-system-running"); return said == "running" })
	return m
}

// makeGroup makes a control group below this process's own, in the one hierarchy or beside those of version 1.
func (m *machine) makeGroup() {
	m.t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		m.t.Fatal(err)
	}
	var own string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = rest
		}
	}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if m.group, err = os.MkdirTemp(filepath.Join(root, own), "gatewayd-test-"); err != nil {
			continue
		}
		if err = errors.Join(os.Chmod(m.group, 0o755), unix.Access(filepath.Join(m.group, "cgroup.procs"), unix.W_OK)); err == nil {
			m.t.Cleanup(func() { m.removeGroup() })
			return
		}
		_ = os.Remove(m.group)
	}
	m.t.Skip("SKIPPED: a real systemd is not tried here: no control group of version 2 can be made: ", err)
}

// removeGroup takes the control groups away when the last process has left them.
func (m *machine) removeGroup() {
	empty := func() bool {
		var dirs []string
		_ = filepath.WalkDir(m.group, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			_ = os.Remove(dir)
		}
		_, err := os.Stat(m.group)
		return errors.Is(err, os.ErrNotExist)
	}
	if !vigil.Until(patience, nil, empty) {
		m.t.Errorf("somebody is still in %s", m.group)
	}
}

// in gives the attributes of a process that begins in a control group below the machine's.
func (m *machine) in(group string) (*syscall.SysProcAttr, func()) {
	m.t.Helper()
	path := filepath.Join(m.group, group)
	if err := os.MkdirAll(path, 0o755); err != nil {
		m.t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		m.t.Fatal(err)
	}
	return &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Setsid: true}, func() { _ = dir.Close() }
}

func (m *machine) boot() {
	m.t.Helper()
	text, err := json.Marshal(machineSpec{Dir: m.t.TempDir(), Program: program})
	if err != nil {
		m.t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	theirs, ours := os.NewFile(uintptr(pair[0]), "machine"), os.NewFile(uintptr(pair[1]), "test")
	defer ours.Close()
	attr, free := m.in("")
	defer free()
	attr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	m.cmd = exec.Command(os.Args[0], "-test.run=^$")
	m.cmd.Env, m.cmd.ExtraFiles, m.cmd.SysProcAttr = []string{machineEnv + "=" + string(text)}, []*os.File{theirs}, attr
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	if err := m.cmd.Start(); err != nil {
		_ = theirs.Close()
		m.t.Skip("SKIPPED: a real systemd is not tried here: no namespaces can be made: ", err)
	}
	_ = theirs.Close()
	go func() { defer close(m.done); _ = m.cmd.Wait() }()
	m.t.Cleanup(m.end)
	door := receiveDoor(ours)
	if door == nil {
		<-m.done
		m.t.Skip("SKIPPED: a real systemd is not tried here: ", strings.TrimSpace(m.log.String()))
	}
	m.model = fakellm.Start(fakellm.Options{Listener: door, Each: func(fakellm.Request) fakellm.Response { return fakellm.Text{Text: "from the model"} }})
	m.t.Cleanup(m.model.Close)
}

// end kills the first process, and the kernel all others with it.
func (m *machine) end() {
	if m.t.Failed() {
		said, _ := m.try("journalctl", "--no-pager", "-o", "short-precise")
		m.t.Logf("journal of the machine:\n%.20000s", said)
	}
	_ = m.cmd.Process.Kill()
	<-m.done
}

// try runs a program in the machine as its root and gives what it says and its exit code.
func (m *machine) try(argv ...string) (string, int) {
	m.t.Helper()
	return m.visit([]string{"HOME=/root"}, argv...)
}

// visit runs a program in the machine's namespaces.
func (m *machine) visit(env []string, argv ...string) (string, int) {
	m.t.Helper()
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(m.cmd.Process.Pid), "-m", "-p", "-C", "-n", "-u", "-i", "-r", "-w", "--"}, argv...)...)
	attr, free := m.in("visitors")
	defer free()
	cmd.SysProcAttr, cmd.Env = attr, append(env, "PATH="+machinePath, "LANG=C.UTF-8")
	if name := os.Getenv(mutation.Variable); name != "" {
		cmd.Env = append(cmd.Env, mutation.Variable+"="+name)
	}
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		m.t.Errorf("visit: %v", err)
		return err.Error(), -1
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

// run is try, of what must go well.
func (m *machine) run(argv ...string) string {
	m.t.Helper()
	out, code := m.try(argv...)
	if code != 0 {
		m.t.Fatalf("%s: exit code %d: %s", strings.Join(argv, " "), code, out)
	}
	return out
}

// types runs a line as a person types it, or as a verb says that it be typed.
func (m *machine) types(line string) string {
	m.t.Helper()
	return m.run("sh", "-c", line)
}

// show gives one property of a unit.
func (m *machine) show(unit, property string) string {
	m.t.Helper()
	return m.run("systemctl", "show", "-P", property, unit)
}

// file is the path by which this process reaches a file of the machine.
func (m *machine) file(path string) string {
	return fmt.Sprintf("/proc/%d/root%s", m.cmd.Process.Pid, path)
}

// write makes a file of the machine, of the owner of its directory. A configuration of the machine may be read by everybody.
func (m *machine) write(path, text string) {
	m.t.Helper()
	if err := os.MkdirAll(m.file(filepath.Dir(path)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	fresh, mode := m.file(path)+".fresh", os.FileMode(0o600)
	if strings.HasPrefix(path, "/etc/systemd/") {
		mode = 0o644
	}
	var owner unix.Stat_t
	err := errors.Join(os.WriteFile(fresh, []byte(text), mode), unix.Stat(m.file(filepath.Dir(path)), &owner))
	if err := errors.Join(err, os.Chown(fresh, int(owner.Uid), int(owner.Gid)), os.Rename(fresh, m.file(path))); err != nil {
		m.t.Fatal(err)
	}
}

// until asks again until the answer is yes. A machine that ends meanwhile fails the test at once.
func (m *machine) until(what string, is func() bool) {
	m.t.Helper()
	if vigil.Until(2*patience, m.done, is) {
		return
	}
	select {
	case <-m.done:
		m.t.Fatalf("the machine ended while waiting until %s", what)
	default:
		m.t.Fatalf("not in time: %s", what)
	}
}

// dial makes a connection in the machine's network.
func (m *machine) dial(_ context.Context, network, addr string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer here.Close()
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout(network, addr, patience)
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(back) // this thread is of no more use to anybody
	}
	return conn, err
}

// client speaks HTTP in the machine's network.
func (m *machine) client() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: m.dial}}
}
