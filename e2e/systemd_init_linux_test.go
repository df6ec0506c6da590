package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	machineEnv = "GATEWAYD_TEST_MACHINE"

	// systemdProgram and systemUnits are where systemd is since /bin and /lib are links.
	systemdProgram = "/usr/lib/systemd/systemd"
	systemUnits    = "/usr/lib/systemd/system"
	userUnits      = "/usr/lib/systemd/user"
)

// machineSpec is what the first process of a machine must know.
type machineSpec struct {
	Dir     string // empty; only a mount point
	Program string // gatewayd
}

// kept are the units that a machine has: enough to boot, to log and to end, and nothing that looks for hardware or the network.
var kept = map[string][]string{
	systemUnits: {
		"basic.target", "sysinit.target", "sockets.target", "multi-user.target", "network.target", "network-online.target", "local-fs.target", "paths.target",
		"timers.target", "slices.target", "swap.target", "shutdown.target", "umount.target", "final.target", "systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket",
	},
	userUnits: {"default.target", "basic.target", "sockets.target", "paths.target", "timers.target", "shutdown.target", "exit.target", "systemd-exit.service"},
}

// userManager is user@.service without a login's PAM, which has nobody here to ask.
const userManager = `[Service]
User=%i
Type=notify
ExecStart=` + systemdProgram + ` --user
Delegate=yes
KillMode=mixed
RuntimeDirectory=user/%i
RuntimeDirectoryMode=0700
Environment=XDG_RUNTIME_DIR=/run/user/%i
`

// beMachine makes this machine's file system one of its own, of which nothing that is written stays, and becomes systemd. It returns only
// when it failed.
func beMachine(text string) error {
	runtime.LockOSThread()
	var spec machineSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	// the group that is the root of the groups inside is the one in which this process is by now
	for _, step := range []func() error{func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) }, spec.layer, spec.kernel, spec.devices, spec.empty, spec.units, spec.enter, containerSpec{}.network, spec.lower} {
		if err := step(); err != nil {
			return fmt.Errorf("machine: %w", err)
		}
	}
	return unix.Exec(systemdProgram, []string{systemdProgram, "--system", "--unit=multi-user.target", "--show-status=no"}, []string{"container=gatewayd-test", "PATH=" + machinePath})
}

const machinePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (s machineSpec) root(path string) string { return filepath.Join(s.Dir, "root", path) }

// layer puts a layer of memory over the root of this machine.
func (s machineSpec) layer() error {
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", s.Dir, "tmpfs", unix.MS_NODEV, "mode=755"))
	for _, dir := range []string{"upper", "work", "root"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(s.Dir, dir), 0o755))
	}
	return errors.Join(err, unix.Mount("overlay", s.root("/"), "overlay", 0, fmt.Sprintf("lowerdir=/,upperdir=%s/upper,workdir=%[1]s/work", s.Dir)))
}

// kernel shows what is of these namespaces, and lets nobody turn what is of the whole machine.
func (s machineSpec) kernel() error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return errors.Join(
		unix.Mount("proc", s.root("/proc"), "proc", safe, ""),
		unix.Mount(s.root("/proc/sys"), s.root("/proc/sys"), "", unix.MS_BIND, ""), sealed(s.root("/proc/sys")),
		unix.Mount("sysfs", s.root("/sys"), "sysfs", safe|unix.MS_RDONLY, ""),
		unix.Mount("cgroup2", s.root("/sys/fs/cgroup"), "cgroup2", safe, ""),
	)
}

func (s machineSpec) devices() error {
	err := unix.Mount("tmpfs", s.root("/dev"), "tmpfs", unix.MS_NOSUID, "mode=755")
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		to := s.root("/dev/" + name)
		err = errors.Join(err, os.WriteFile(to, nil, 0o666), unix.Mount("/dev/"+name, to, "", unix.MS_BIND, ""))
	}
	for _, name := range []string{"pts", "shm", "mqueue"} {
		err = errors.Join(err, os.Mkdir(s.root("/dev/"+name), 0o755))
	}
	return errors.Join(err, os.Symlink("pts/ptmx", s.root("/dev/ptmx")),
		unix.Mount("devpts", s.root("/dev/pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"),
		unix.Mount("tmpfs", s.root("/dev/shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		unix.Mount("mqueue", s.root("/dev/mqueue"), "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
}

// empty hides what this machine keeps, and gives the program its place.
func (s machineSpec) empty() (err error) {
	for dir, mode := range map[string]string{
		"/run": "755", "/tmp": "1777", "/var/tmp": "1777", "/var/log": "755", "/var/lib": "755", "/var/cache": "755", "/root": "700", "/home": "755", "/usr/local/bin": "755",
		"/etc/systemd": "755", "/usr/lib/systemd/system-generators": "755", "/usr/lib/systemd/user-generators": "755",
	} {
		if _, missing := os.Stat(s.root(dir)); missing != nil {
			continue
		}
		err = errors.Join(err, unix.Mount("tmpfs", s.root(dir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode="+mode))
	}
	program := s.root("/usr/local/bin/gatewayd")
	return errors.Join(err, os.WriteFile(s.root("/etc/fstab"), nil, 0o644), os.WriteFile(s.root("/etc/machine-id"), nil, 0o444), os.WriteFile(s.root("/etc/hostname"), []byte("machine\n"), 0o644),
		os.WriteFile(program, nil, 0o755), unix.Mount(s.Program, program, "", unix.MS_BIND, ""), sealed(program))
}

func (s machineSpec) units() (err error) {
	for dir, names := range kept {
		fresh := map[string][]byte{}
		for _, name := range names {
			text, missing := os.ReadFile(s.root(filepath.Join(dir, name)))
			if missing == nil { // another version may have another set
				fresh[name] = text
			}
		}
		err = errors.Join(err, unix.Mount("tmpfs", s.root(dir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"))
		for name, text := range fresh {
			err = errors.Join(err, os.WriteFile(s.root(filepath.Join(dir, name)), text, 0o644))
		}
	}
	err = errors.Join(err, os.WriteFile(s.root(systemUnits+"/user@.service"), []byte(userManager), 0o644))
	for target, names := range map[string][]string{"sockets.target": {"systemd-journald.socket", "systemd-journald-dev-log.socket"}, "sysinit.target": {"systemd-journald.service"}} {
		wants := s.root(filepath.Join(systemUnits, target+".wants"))
		err = errors.Join(err, os.Mkdir(wants, 0o755))
		for _, name := range names {
			err = errors.Join(err, os.Symlink("../"+name, filepath.Join(wants, name)))
		}
	}
	return err
}

func (s machineSpec) enter() error {
	return containerSpec{Root: s.root("/"), Host: "machine"}.enter()
}

// lower gives up what reaches over the namespaces.
func (machineSpec) lower() (err error) {
	for _, capability := range []uintptr{unix.CAP_SYS_TIME, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYSLOG, unix.CAP_WAKE_ALARM, unix.CAP_AUDIT_CONTROL, unix.CAP_BPF, unix.CAP_PERFMON} {
		err = errors.Join(err, unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0))
	}
	return err
}
