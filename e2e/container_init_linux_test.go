package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	containerEnv    = "GATEWAYD_TEST_CONTAINER"
	containerFailed = 111 // no exit code of the program's
	modelPort       = "127.0.0.1:8000"
)

// containerSpec is what an engine tells the first process of a container.
type containerSpec struct {
	Root, Host string
	Mounts     []containerMount
	Env, Argv  []string
	Writable   bool // the root file system
}

// containerMount is one directory of this machine in the container.
type containerMount struct {
	From, To string
	ReadOnly bool
}

// beContainer does in fresh namespaces what an engine does there, and becomes the program. It returns only when it failed.
func beContainer(text string) error {
	runtime.LockOSThread() // capabilities are a thread's, and this one becomes the program
	var spec containerSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	for _, step := range []func() error{spec.mount, spec.enter, spec.network, spec.lower} {
		if err := step(); err != nil {
			return fmt.Errorf("container: %w", err)
		}
	}
	return unix.Exec(spec.Argv[0], spec.Argv, spec.Env)
}

func (s containerSpec) mount() error {
	bind := func(from, to string) error { return unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "") }
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), bind(s.Root, s.Root))
	for _, dir := range []string{"proc", "dev"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(s.Root, dir), 0o755))
	}
	err = errors.Join(err, unix.Mount("proc", filepath.Join(s.Root, "proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		unix.Mount("tmpfs", filepath.Join(s.Root, "dev"), "tmpfs", unix.MS_NOSUID, "mode=755"),
		unix.Mount("tmpfs", filepath.Join(s.Root, "tmp"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m"))
	for _, device := range []string{"null", "zero", "random", "urandom"} {
		path := filepath.Join(s.Root, "dev", device)
		err = errors.Join(err, os.WriteFile(path, nil, 0o666), bind("/dev/"+device, path))
	}
	for _, m := range s.Mounts {
		to := filepath.Join(s.Root, m.To)
		err = errors.Join(err, os.MkdirAll(to, 0o755), bind(m.From, to))
		if m.ReadOnly {
			err = errors.Join(err, sealed(to))
		}
	}
	if !s.Writable {
		err = errors.Join(err, sealed(s.Root))
	}
	return err
}

// sealed makes a bind mount read-only and keeps the flags that it has.
func sealed(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	kept := uintptr(fs.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
	return unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, "")
}

// enter makes the root the only one there is.
func (s containerSpec) enter() error {
	if err := unix.Chdir(s.Root); err != nil {
		return err
	}
	return errors.Join(unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), unix.Chdir("/"), unix.Sethostname([]byte(s.Host)))
}

// network brings the loopback up and hands the test a door in it, behind which the model answers.
func (s containerSpec) network() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	l, err := net.Listen("tcp", modelPort)
	if err != nil {
		return err
	}
	door, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	const engine = 3 // the first of cmd.ExtraFiles
	unix.CloseOnExec(engine)
	return unix.Sendmsg(engine, []byte{0}, unix.UnixRights(int(door.Fd())), nil, 0)
}

// lower gives up what was needed until here: the program has no capability and can get none.
func (containerSpec) lower() error {
	return errors.Join(unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// namespaces make a process the first of a container. User uid of the container is whoever runs the tests, so that nobody has to be root.
func namespaces(uid, gid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE},
		Setsid:      true,
	}
}
