package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/mutation"
	"gatewayd/internal/vigil"
	"gatewayd/reaper"
)

// program is the binary under test, built once; scratch is where what is built lies.
var program, scratch string

// programEnv names a program that is built already, to a process that these tests start.
const programEnv = "GATEWAYD_TEST_PROGRAM"

func TestMain(m *testing.M) {
	reaper.Main()
	if path := os.Getenv(claimerEnv); path != "" {
		os.Exit(claimAll(path))
	}
	if path := os.Getenv(bareEnv); path != "" {
		os.Exit(serveBare(path))
	}
	if spec := os.Getenv(containerEnv); spec != "" {
		fmt.Fprintln(os.Stderr, beContainer(spec))
		os.Exit(containerFailed)
	}
	if spec := os.Getenv(machineEnv); spec != "" {
		fmt.Fprintln(os.Stderr, beMachine(spec))
		os.Exit(containerFailed)
	}
	if door := os.Getenv(playEnv); door != "" {
		program = os.Getenv(programEnv)
		os.Exit(playWorker(door))
	}
	flag.Set("test.parallel", "4") // on two cores: they wait for daemons, and for deadlines of theirs, seven times as long as they work; the command line overrides it
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gatewayd-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	if program, err = builtProgram(); err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		return 1
	}
	seen := &described{RoundTripper: http.DefaultTransport, list: map[string]bool{}}
	http.DefaultClient.Transport = seen
	code := m.Run()
	if !seen.tell() && code == 0 {
		code = 1
	}
	return code
}

// builtProgram gives the program as it ships: static; where these tests watch for races it does, too.
func builtProgram() (string, error) {
	if built := os.Getenv(programEnv); built != "" {
		return built, nil
	}
	path := filepath.Join(scratch, "gatewayd")
	args := append([]string{"build", "-tags", buildTags, "-ldflags", "-s -w", "-o", path}, raceBuild...)
	build := exec.Command("go", append(args, "../cmd/gatewayd")...)
	if raceBuild == nil {
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return path, build.Run()
}

// patience is how long a test waits for something that happens in milliseconds on an idle machine.
const patience = 30 * time.Second

// newHome makes a home with this configuration.
func newHome(t *testing.T, yaml string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// daemon is a started program.
type daemon struct {
	t     *testing.T
	home  string
	child *reaper.Child
	log   *bytes.Buffer // complete when the child has ended
	base  string
	key   string
}

// start runs the daemon of a home and waits until it answers.
func start(t *testing.T, home string, args ...string) *daemon {
	t.Helper()
	d := launch(t, home, args...)
	d.ready()
	return d
}

// ready waits until the daemon answers: until it is this process that does.
func (d *daemon) ready() {
	d.t.Helper()
	d.until("the daemon is ready", func() bool {
		holder, held, err := config.HolderOf(d.home)
		if err != nil || !held || holder.PID != d.child.PID() || holder.Addr == "" {
			return false
		}
		key, err := config.ReadAPIKey(d.home)
		if err != nil {
			return false
		}
		d.base, d.key = "http://"+holder.Addr, key.Reveal()
		var health struct{ PID int }
		return d.try(http.MethodGet, "/health/detailed", nil, &health) == nil && health.PID == d.child.PID()
	})
}

// launch runs the daemon and does not wait for it.
func launch(t *testing.T, home string, args ...string) *daemon {
	t.Helper()
	return launchIn(t, home, home, nil, args...)
}

// launchIn starts the daemon in a directory, with more of an environment than it needs.
func launchIn(t *testing.T, dir, home string, more []string, args ...string) *daemon {
	t.Helper()
	log := &bytes.Buffer{}
	d := launchTo(t, log, dir, home, more, args...)
	d.log = log
	return d
}

// launchTo is launchIn with another reader of what the daemon says.
func launchTo(t *testing.T, log io.Writer, dir, home string, more []string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, home: home, log: &bytes.Buffer{}}
	argv := append([]string{program, "--home", home, "--addr", "127.0.0.1:0"}, args...)
	child, err := reaper.StartChild(argv, append(homeEnv(home), more...), dir, log, log)
	if err != nil {
		t.Fatal(err)
	}
	d.child = child
	t.Cleanup(func() {
		_ = child.Signal(syscall.SIGKILL)
		_, _, _ = child.Wait()
		if t.Failed() {
			t.Logf("log of the daemon:\n%s", d.log)
		}
	})
	return d
}

// homeEnv is the environment of a program of a home: nothing of whoever runs the tests, but the mutation that is tried.
func homeEnv(home string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	if name := os.Getenv(mutation.Variable); name != "" {
		env = append(env, mutation.Variable+"="+name)
	}
	return env
}

// until asks again until the answer is yes. A daemon that ends meanwhile fails the test at once.
func (d *daemon) until(what string, is func() bool) {
	d.t.Helper()
	if vigil.Until(patience, d.child.Done(), is) {
		return
	}
	select {
	case <-d.child.Done():
		d.t.Fatalf("the daemon ended while waiting until %s", what)
	default:
		d.t.Fatalf("not within %v: %s", patience, what)
	}
}

// end waits for the daemon's end and gives its exit code and signal.
func (d *daemon) end() (code, signal int) {
	d.t.Helper()
	late := time.AfterFunc(patience, func() { _ = d.child.Signal(syscall.SIGKILL) })
	defer late.Stop()
	code, signal, err := d.child.Wait()
	if err != nil {
		d.t.Fatal(err)
	}
	return code, signal
}

// stop ends the daemon as a supervisor does.
func (d *daemon) stop() {
	d.t.Helper()
	d.leaveWith(0, patience)
}

// leaveWith stops the daemon as a supervisor does and demands that it exits by itself, in time and with this code.
func (d *daemon) leaveWith(want int, limit time.Duration) {
	d.t.Helper()
	began := time.Now()
	if err := d.child.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	late := time.AfterFunc(limit, func() { _ = d.child.Signal(syscall.SIGKILL) })
	defer late.Stop()
	code, signal, err := d.child.Wait()
	if code != want || signal != 0 || err != nil {
		d.t.Errorf("ended after %v with code %d, signal %d: %v", time.Since(began).Round(time.Millisecond), code, signal, err)
	}
}

// call speaks to the API and fails the test on a refusal.
func (d *daemon) call(method, path string, body, out any) {
	d.t.Helper()
	if err := d.try(method, path, body, out); err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
}

func (d *daemon) try(method, path string, body, out any) error {
	resp, err := d.send(method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return errors.New(resp.Status + " " + string(raw))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

func (d *daemon) send(method, path string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, d.base+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// cli runs a verb beside the daemon.
func cli(t *testing.T, home string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return cliIn(t, "", home, args...)
}

// cliIn runs a verb in a directory.
func cliIn(t *testing.T, dir, home string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return cliOf(t, program, dir, home, args...)
}

// cliOf runs a verb of a program, which may be an older one.
func cliOf(t *testing.T, program, dir, home string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"--home", home}, args...)...)
	cmd.Dir = dir
	cmd.Env = homeEnv(home)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), errs.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), 0
}
