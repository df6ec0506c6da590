package procfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/vigil"
)

func TestStatIsReadFromTheLastParenthesis(t *testing.T) {
	tail := " S 10 20 30 0 -1 4194304 1 2 3 4 150 50 7 8 20 0 1 0 987654 1000 200 18446744073709551615 1 1\n"
	for name, comm := range map[string]string{"plain": "sh", "spaces": "a b", "parentheses": "x) S 1 2 (y", "empty": ""} {
		got, err := parseStat([]byte("42 (" + comm + ")" + tail))
		want := Stat{PID: 42, PPID: 10, PGID: 20, SID: 30, State: 'S', Comm: comm, Start: 987654, user: 150, system: 50}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "42", "42 (sh", "42 (sh) S 1 2", "x (sh)" + tail, "42 (sh) SS" + tail, strings.Replace("42 (sh)"+tail, "987654", "no", 1)} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("42 (a) b) S 10 20 30 0 -1 4194304 1 2 3 4 150 50 7 8 20 0 1 0 987654 1000"))
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = parseStat(data) })
}

// child is a process of ours to look at.
func child(t *testing.T, env []string, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func TestAnIdentityLivesAndDiesWithItsProcess(t *testing.T) {
	self, err := Self()
	if err != nil || !self.Alive() || !self.Known() || self.PID != os.Getpid() || self.Boot != BootID() {
		t.Fatalf("self %+v, %v", self, err)
	}
	for name, other := range map[string]Identity{
		"another start": {self.Boot, self.PID, self.Start + 1}, "another boot": {"x", self.PID, self.Start},
		"no boot": {"", self.PID, self.Start}, "no pid": {self.Boot, 0, self.Start}, "zero": {},
	} {
		if other.Alive() {
			t.Errorf("%s is alive", name)
		}
	}
	cmd := child(t, nil, "sleep", "100")
	id, err := Identify(cmd.Process.Pid)
	if err != nil || !id.Alive() {
		t.Fatalf("child %+v, %v", id, err)
	}
	cmd.Process.Kill()
	until(t, func() bool { stat, err := ReadStat(id.PID); return err == nil && stat.State == 'Z' })
	if id.Alive() {
		t.Error("a zombie is alive")
	}
	if again, err := Identify(id.PID); err != nil || again != id {
		t.Errorf("a zombie has lost its identity: %+v, %v", again, err)
	}
	cmd.Wait()
	if _, err := Identify(id.PID); !errors.Is(err, fs.ErrNotExist) || !Gone(err) || id.Alive() {
		t.Errorf("gone: %v", err)
	}
}

func until(t *testing.T, holds func() bool) {
	t.Helper()
	if !vigil.Until(time.Minute, nil, holds) {
		t.Fatal("it never holds")
	}
}

func TestAFingerprintHasBootContainerAndStart(t *testing.T) {
	self, _ := Self()
	first, err := ReadStat(1)
	if err != nil {
		t.Skipf("SKIPPED: pid 1 cannot be read here (%v), so every fingerprint is unverified", err)
	}
	got := Fingerprint(os.Getpid())
	boot, rest, _ := strings.Cut(got, ":")
	if boot != BootID() || rest != uitoa(first.Start)+"|"+uitoa(self.Start) {
		t.Errorf("fingerprint %q", got)
	}
	if got := Fingerprint(1 << 30); got != Unverified {
		t.Errorf("nobody's fingerprint is %q", got)
	}
}

func TestChildrenAndTagsAreFound(t *testing.T) {
	tagged := child(t, []string{"PROCFS_TEST=a=b", "OTHER=PROCFS_TEST=c"}, "sleep", "100")
	child(t, []string{"PROCFS_TEST=a=bc", "XPROCFS_TEST=a=b"}, "sleep", "100")
	pids, err := Children(os.Getpid())
	if err != nil || !slices.Contains(pids, tagged.Process.Pid) {
		t.Errorf("children %v, %v", pids, err)
	}
	// exec has happened when Start returns, but the new environment is only there a moment later.
	until(t, func() bool {
		found, err := Tagged("PROCFS_TEST", "a=b")
		return err == nil && slices.Equal(found, []int{tagged.Process.Pid})
	})
	if found, err := Tagged("PROCFS_TEST", "c"); err != nil || len(found) != 0 {
		t.Errorf("a value was taken for a variable: %v, %v", found, err)
	}
	env, err := Environ(tagged.Process.Pid)
	if err != nil || !slices.Equal(env, tagged.Env) {
		t.Errorf("environment %q, %v", env, err)
	}
	if all, err := Processes(); err != nil || !slices.ContainsFunc(all, func(s Stat) bool { return s.PID == tagged.Process.Pid && s.PPID == os.Getpid() }) {
		t.Errorf("Processes misses a child: %v", err)
	}
	if _, err := Children(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("children of nobody: %v", err)
	}
}

func TestOpenFilesNamesHolderInodeAndDeletion(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "held")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	match := func(target string) bool { return target == file.Name() }
	found, err := OpenFiles(match)
	if err != nil || len(found) != 1 || found[0].PID != os.Getpid() || found[0].FD != int(file.Fd()) || found[0].Deleted {
		t.Fatalf("found %+v, %v", found, err)
	}
	if dev, ino, _ := inode(file.Name()); dev == 0 || ino == 0 || found[0].Dev != dev || found[0].Ino != ino {
		t.Errorf("inode %d:%d, want %d:%d", found[0].Dev, found[0].Ino, dev, ino)
	}
	os.Remove(file.Name())
	if again, err := OpenFiles(match); err != nil || len(again) != 1 || !again[0].Deleted || again[0].Ino != found[0].Ino {
		t.Errorf("after the removal: %+v, %v", again, err)
	}
}

func TestTheMountOfADirectoryIsTheLongestPrefixByComponents(t *testing.T) {
	table := `22 1 8:1 / / rw - ext4 /dev/root rw
23 22 0:5 / /data rw,relatime shared:1 master:2 - xfs /dev/b rw
24 22 0:6 / /data/in\040side rw - nfs4 host:/x rw
25 22 0:7 / /database rw - tmpfs none rw
26 22 0:8 / /tab\011new\012back\134slash rw - 9p share rw
27 22 0:9 / /twice rw - ext4 /dev/c rw
28 22 0:9 / /twice rw - fuse.sshfs host: rw
broken line
29 22 0:9 / /short
`
	for dir, want := range map[string]Mount{
		"/":                      {"/", "ext4"},
		"/home/a":                {"/", "ext4"},
		"/data":                  {"/data", "xfs"},
		"/data/x":                {"/data", "xfs"},
		"/data2":                 {"/", "ext4"},
		"/database/x":            {"/database", "tmpfs"},
		"/data/in side":          {"/data/in side", "nfs4"},
		"/data/in side2":         {"/data", "xfs"},
		"/tab\tnew\nback\\slash": {"/tab\tnew\nback\\slash", "9p"},
		"/twice/x":               {"/twice", "fuse.sshfs"},
		"/short":                 {"/", "ext4"},
	} {
		if got, ok := mountOf(table, dir); !ok || got != want {
			t.Errorf("%q: %+v", dir, got)
		}
	}
	if got, ok := mountOf("", "/"); ok {
		t.Errorf("an empty table gives %+v", got)
	}
}

func TestAMountIsToldByWhereALinkLeads(t *testing.T) {
	if mount, err := MountOf("/proc/self"); err != nil || mount.FSType != "proc" {
		t.Fatalf("/proc/self: %+v, %v", mount, err)
	}
	link := t.TempDir() + "/link"
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	if mount, err := MountOf(link); err != nil || mount != (Mount{"/proc", "proc"}) {
		t.Errorf("through a link: %+v, %v", mount, err)
	}
	if _, err := MountOf(link + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}

func TestMemoryTimeAndDescriptorsOfThisProcess(t *testing.T) {
	pid := os.Getpid()
	if rss, err := RSS(pid); err != nil || rss < 1<<20 || rss > 1<<34 {
		t.Errorf("rss %d, %v", rss, err)
	}
	before, err := CPUTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { // reading is work
		after, err := CPUTime(pid)
		return err == nil && after > before
	})
	fds, err := NumFDs(pid)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if more, err := NumFDs(pid); err != nil || more != fds+1 {
		t.Errorf("%d descriptors, then %d, %v", fds, more, err)
	}
	for name, err := range map[string]error{"rss": second(RSS(1 << 30)), "time": second(CPUTime(1 << 30)), "fds": second(NumFDs(1 << 30))} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of nobody: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestInheritedDescriptorsAreThoseThatAProgramWouldGet(t *testing.T) {
	before, err := Inherited()
	if err != nil {
		t.Fatal(err)
	}
	leak := dup(t)
	after, err := Inherited()
	if err != nil || slices.Contains(before, leak) || !slices.Contains(after, leak) {
		t.Errorf("before %v, after %v, %v", before, after, err)
	}
}

// dup makes a descriptor without close-on-exec.
func dup(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Dup(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	return fd
}

func uitoa(n uint64) string { return strconv.FormatUint(n, 10) }
