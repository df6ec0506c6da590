package reaper_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/procfs"
	"gatewayd/internal/vigil"
	"gatewayd/reaper"
)

// The test binary plays the parts that need a process of their own: keeper, daemon, and a child that looks at itself.
func TestMain(m *testing.M) {
	reaper.Main()
	if len(os.Args) > 1 {
		if role := roles[os.Args[1]]; role != nil {
			if err := role(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	code := m.Run()
	for _, report := range raceReports() {
		fmt.Fprintln(os.Stderr, report)
		code = 1
	}
	os.Exit(code)
}

var roles = map[string]func([]string) error{"daemon": daemonRole, "first": firstRole}

// runTag keeps two runs of these tests on one machine apart, which see each other's processes.
var runTag = fmt.Sprintf("%06d", rand.IntN(1000000))

// own makes an id, or a mark, this run's own.
func own(name string) string {
	if strings.Contains(name, ".") {
		return name + runTag
	}
	return name + "-" + runTag
}

// limit is far above what anything here takes: it only ends a test that hangs.
const limit = 60 * time.Second

var path = "PATH=" + os.Getenv("PATH")

func newReaper(t testing.TB, options ...func(*reaper.Options)) *reaper.Reaper {
	t.Helper()
	o := reaper.Options{Dir: t.TempDir(), Exe: keeperExe(t)}
	for _, option := range options {
		option(&o)
	}
	r, err := reaper.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func in(dir string) func(*reaper.Options) { return func(o *reaper.Options) { o.Dir = dir } }

// running runs the actor until stop is called or the test ends.
func running(t testing.TB, r *reaper.Reaper) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func shell(id, script string) reaper.Spec {
	return reaper.Spec{ID: id, Argv: []string{"sh", "-c", script}, Env: []string{path}, Grace: 200 * time.Millisecond}
}

func start(t testing.TB, r *reaper.Reaper, spec reaper.Spec) *reaper.Process {
	t.Helper()
	p, err := r.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0); wait(t, p) })
	return p
}

func wait(t testing.TB, p *reaper.Process) reaper.Record {
	t.Helper()
	select {
	case <-p.Done():
		return p.Record()
	case <-time.After(limit):
		t.Errorf("run %s does not end", p.ID())
		return reaper.Record{}
	}
}

// until asks again until the condition holds. What it asks for is the kernel's to bring about, and has no event that
// a test could wait on.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !vigil.Until(limit, nil, holds) {
		t.Fatal("never: " + what)
	}
}

// marked lists the living processes whose command line has the mark: also those that hid from tag and session.
func marked(mark string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), mark) {
			continue
		}
		var pid int
		fmt.Sscanf(file, "/proc/%d/", &pid)
		if stat, err := procfs.ReadStat(pid); err == nil && !stat.Dead() {
			found = append(found, pid)
		}
	}
	return found
}

// kill is the machine's own violence: what the out-of-memory killer does to a process.
func kill(t testing.TB, id procfs.Identity) { t.Helper(); signal(t, id, syscall.SIGKILL) }

func signal(t testing.TB, id procfs.Identity, sig syscall.Signal) {
	t.Helper()
	p, err := os.FindProcess(id.PID) // holds a pidfd: from here on it is this very process
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if !id.Alive() {
		t.Fatalf("%+v is not alive", id)
	}
	if err := p.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// daemon is another process of this binary that plays the daemon.
type daemon struct {
	t     testing.TB
	child *reaper.Child
	lines *bufio.Scanner
}

type daemonTask struct {
	Dir   string
	Specs []reaper.Spec
}

type daemonRun struct{ Keeper, Child procfs.Identity }

// startDaemon starts a daemon that starts the runs, and waits until they run.
func startDaemon(t testing.TB, task daemonTask) (*daemon, []daemonRun) {
	t.Helper()
	data, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	child, err := reaper.StartChild([]string{os.Args[0], "daemon", string(data)}, []string{path}, "", w, os.Stderr)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, child: child, lines: bufio.NewScanner(out)}
	if !d.lines.Scan() {
		t.Fatal("the daemon said nothing")
	}
	var runs []daemonRun
	if err := json.Unmarshal(d.lines.Bytes(), &runs); err != nil {
		t.Fatal(err)
	}
	return d, runs
}

// killed ends the daemon with SIGKILL and returns when it is gone.
func (d *daemon) killed() {
	d.t.Helper()
	if err := d.child.Signal(syscall.SIGKILL); err != nil {
		d.t.Fatal(err)
	}
	if _, signal, err := d.child.Wait(); err != nil || signal != int(syscall.SIGKILL) {
		d.t.Fatal(signal, err)
	}
}

func daemonRole(args []string) error {
	var task daemonTask
	if err := json.Unmarshal([]byte(args[0]), &task); err != nil {
		return err
	}
	r, err := reaper.New(reaper.Options{Dir: task.Dir})
	if err != nil {
		return err
	}
	var runs []daemonRun
	for _, spec := range task.Specs {
		p, err := r.Start(context.Background(), spec)
		if err != nil {
			return err
		}
		runs = append(runs, daemonRun{p.Keeper(), p.Child()})
	}
	if err := json.NewEncoder(os.Stdout).Encode(runs); err != nil {
		return err
	}
	select {}
}

// plain runs a command through os/exec, as code outside of this package would.
func plain(name string, args ...string) (int, error) {
	cmd := exec.Command(name, args...)
	err := cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode(), nil
	}
	return 0, err
}
