package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/deploy"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/homesocket"
	"gatewayd/internal/mutation"
	"gatewayd/internal/vigil"
)

// engine plays a container engine: it has the image of the Dockerfile, and runs containers of it.
type engine struct {
	t     *testing.T
	image deploy.Image
	root  string
}

// newEngine builds the image, or skips aloud where no container can be.
func newEngine(t *testing.T) *engine {
	t.Helper()
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip("SKIPPED: there is no nsenter here, so the container is not played: ", err)
	}
	image, err := deploy.Read()
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, image: image, root: filepath.Join(t.TempDir(), "root")}
	stage := deploy.Stage{Out: t.TempDir(), Program: program, GoRoot: goRoot(t), Shell: func(ctx context.Context, script string) error {
		out, err := exec.CommandContext(ctx, "sh", "-c", script).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}}
	if err := image.Build(t.Context(), stage, e.root); err != nil {
		t.Fatal(err)
	}
	try := exec.Command("true")
	try.SysProcAttr = namespaces(image.UID, image.GID)
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no namespaces can be made here (%v: %.200s), so the container is not played", err, out)
	}
	return e
}

func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// container is one that runs, or did.
type container struct {
	t      *testing.T
	engine *engine
	volume string
	cmd    *exec.Cmd
	env    []string
	log    bytes.Buffer // complete when it has ended
	model  *fakellm.Server
	done   chan struct{}
	web    *http.Client
}

// newVolume is a native volume as an engine makes it from the image: of the user's own, and closed to others.
func newVolume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run starts a container with its volume, as `docker run` does with the options of the compose file.
func (e *engine) run(host, volume string, change func(*containerSpec)) *container {
	e.t.Helper()
	env := append([]string{"PATH=/", "HOME=" + e.image.Volume, "GATEWAYD_INSECURE_BIND=true", "GATEWAYD_MODEL_BASE_URL=http://" + modelPort + "/v1", "GATEWAYD_MODEL_NAME=" + fakellm.Model}, e.image.Env...)
	if name := os.Getenv(mutation.Variable); name != "" {
		env = append(env, mutation.Variable+"="+name)
	}
	spec := containerSpec{Root: e.root, Host: host, Env: env, Argv: e.image.Entrypoint}
	if volume != "" {
		spec.Mounts = []containerMount{{From: volume, To: e.image.Volume}}
	}
	if change != nil {
		change(&spec)
	}
	c := &container{t: e.t, engine: e, volume: volume, env: spec.Env, done: make(chan struct{})}
	c.begin(spec)
	c.web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return homesocket.Dial(ctx, volume, "api.sock")
	}}}
	return c
}

func (c *container) begin(spec containerSpec) {
	c.t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		c.t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	theirs, ours := os.NewFile(uintptr(pair[0]), "container"), os.NewFile(uintptr(pair[1]), "engine")
	defer ours.Close()
	c.cmd = exec.Command(os.Args[0], "-test.run=^$")
	c.cmd.Env, c.cmd.ExtraFiles, c.cmd.SysProcAttr = []string{containerEnv + "=" + string(text)}, []*os.File{theirs}, namespaces(c.engine.image.UID, c.engine.image.GID)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	_ = theirs.Close()
	go func() { defer close(c.done); _ = c.cmd.Wait() }()
	c.t.Cleanup(c.remove)
	if door := receiveDoor(ours); door != nil {
		c.model = fakellm.Start(fakellm.Options{Listener: door, Each: func(r fakellm.Request) fakellm.Response { return fakellm.Text{Text: "from the model"} }})
		c.t.Cleanup(c.model.Close)
	}
}

// receiveDoor gives the listener that was made inside; nil when the container ended before.
func receiveDoor(from *os.File) net.Listener {
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(from.Fd()), make([]byte, 1), rights, 0)
	if err != nil || n == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) == 0 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fds[0]), "door")
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return nil
	}
	return l
}

func (c *container) remove() {
	_ = c.cmd.Process.Kill()
	<-c.done
	if c.t.Failed() {
		c.t.Logf("log of the container:\n%.6000s", c.log.String())
	}
}

// exec runs a program of the container in it, as `docker exec` does, and gives what it says and its exit code.
func (c *container) exec(argv ...string) (string, int) {
	c.t.Helper()
	return c.enter([]string{"-m"}, argv...)
}

// enter runs a program in the container's namespaces; that of mounts only where it is named.
func (c *container) enter(more []string, argv ...string) (string, int) {
	args := append([]string{"-t", strconv.Itoa(c.cmd.Process.Pid), "-U", "--preserve-credentials", "-p", "-n", "-u"}, more...)
	cmd := exec.Command("nsenter", append(append(args, "--"), argv...)...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		if _, failed := errors.AsType[*exec.ExitError](err); !failed {
			c.t.Errorf("enter: %v", err)
		}
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

// until asks again until the answer is yes. A container that ends meanwhile fails the test at once.
func (c *container) until(what string, is func() bool) {
	c.t.Helper()
	if !vigil.Until(2*patience, c.done, is) {
		c.t.Fatalf("not in time, or the container ended before: %s", what)
	}
}

// healthy waits until the image's own health check says so.
func (c *container) healthy() *container {
	c.t.Helper()
	said := ""
	c.until("it is healthy", func() bool {
		out, code := c.exec(c.engine.image.Health...)
		said = out
		return code == 0
	})
	if strings.Count(said, "\n") > 0 {
		c.t.Errorf("health says more than one line: %q", said)
	}
	return c
}

// end waits for the end and gives the exit code, or -1 where a signal ended it.
func (c *container) end() int {
	c.t.Helper()
	late := time.AfterFunc(2*patience, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	<-c.done
	return c.cmd.ProcessState.ExitCode()
}

// signal sends one to the first process, as `docker kill -s` does.
func (c *container) signal(sig syscall.Signal) *container {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// call speaks to the API through the socket in the volume, as another container with the same volume may.
func (c *container) call(method, path string, body, out any) {
	c.t.Helper()
	speak(c.t, c.web, method, "http://127.0.0.1:"+c.engine.image.Port+path, "", body, out)
}

// speak sends a body as JSON and reads the answer into out; anything but success fails the test. What is said is said in session s.
func speak(t *testing.T, web *http.Client, method, url, key string, body, out any) {
	t.Helper()
	raw, err := json.Marshal(body)
	noError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(raw))
	noError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Gatewayd-Session-Id", "s")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s %s %v", method, url, resp.Status, answer, err)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			t.Fatalf("%s %s: %v: %s", method, url, err, answer)
		}
	}
}

// say runs one turn and gives how many rows the conversation has then.
func (c *container) say(text string) int {
	c.t.Helper()
	c.call(http.MethodPost, "/v1/chat/completions", map[string]any{"model": "gatewayd", "messages": []map[string]string{{"role": "user", "content": text}}}, nil)
	return len(c.rows())
}

func (c *container) rows() []row {
	c.t.Helper()
	var list struct{ Messages []row }
	c.call(http.MethodGet, "/api/sessions/s/messages", nil, &list)
	return list.Messages
}
