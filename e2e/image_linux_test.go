package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/mutation"
	"gatewayd/internal/vigil"
)

// What the other tests of the container play is done here by an engine: each line of the Dockerfile, and each promise of docs/container.md.
func TestTheImageIsBuiltAndRunByARealEngine(t *testing.T) {
	t.Parallel()
	p := newPodman(t)
	p.serveModel()
	p.build()
	t.Run("is what the Dockerfile says", func(t *testing.T) { t.Parallel(); p.with(t).isWhatItSays() })
	t.Run("answers, drains, is killed and finds everything again", func(t *testing.T) { t.Parallel(); p.with(t).lives() })
	t.Run("reaps a storm of orphans", func(t *testing.T) { t.Parallel(); p.with(t).storms() })
}

// with is the same engine for another test.
func (p *podman) with(t *testing.T) *podman {
	another := *p
	another.t = t
	return &another
}

func (p *podman) isWhatItSays() {
	var list []struct {
		Size   int64
		Config struct {
			User         string
			ExposedPorts map[string]any
			Env          []string
			Entrypoint   []string
			Volumes      map[string]any
			StopSignal   string
			Labels       map[string]string
		}
		Healthcheck struct {
			Test                           []string
			StartPeriod, Interval, Timeout time.Duration
		}
	}
	if err := json.Unmarshal([]byte(p.must("image", "inspect", "gatewayd")), &list); err != nil || len(list) != 1 {
		p.t.Fatal(list, err)
	}
	has, want := list[0], readImage(p.t)
	c := has.Config
	if c.User != fmt.Sprintf("%d:%d", want.UID, want.GID) || !slices.Equal(c.Entrypoint, want.Entrypoint) || c.StopSignal != want.Stop {
		p.t.Errorf("%+v, want %+v", c, want)
	}
	if _, volume := c.Volumes[want.Volume]; !volume || c.ExposedPorts[want.Port+"/tcp"] == nil {
		p.t.Errorf("volume and port: %+v", c)
	}
	for _, entry := range want.Env {
		if !slices.Contains(c.Env, entry) {
			p.t.Errorf("the environment lacks %s: %q", entry, c.Env)
		}
	}
	if c.Labels["org.opencontainers.image.title"] != "gatewayd" || c.Labels["org.opencontainers.image.version"] != "container" {
		p.t.Errorf("labels %q", c.Labels)
	}
	if h := has.Healthcheck; !slices.Equal(h.Test, append([]string{"CMD"}, want.Health...)) || h.Timeout != 5*time.Second || h.Interval != 30*time.Second {
		p.t.Errorf("health check %+v", h)
	}
	info, err := os.Stat(program)
	if err != nil {
		p.t.Fatal(err)
	}
	if extra := has.Size - info.Size(); !*compileImage && (extra < 0 || extra > 1<<20) {
		p.t.Errorf("the image has %d bytes beside the program's %d", extra, info.Size())
	}
	p.t.Logf("size of the image: %.1f MB; of the program in it: %.1f MB", float64(has.Size)/1e6, float64(info.Size())/1e6)
}

// real is a container of the engine.
type real struct {
	*podman
	name, volume string
	base, key    string
	pid          int
}

// asCompose are the options that the compose file gives a container.
func (p *podman) asCompose(host, volume string) []string {
	args := []string{
		"--network", p.network, "--hostname", host, "-v", volume + ":/data", "--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "-e", "GATEWAYD_INSECURE_BIND=true",
		"-e", "GATEWAYD_MODEL_BASE_URL=" + p.model.URL(), "-e", "GATEWAYD_MODEL_NAME=" + fakellm.Model,
	}
	if name := os.Getenv(mutation.Variable); name != "" {
		args = append(args, "-e", mutation.Variable+"="+name)
	}
	return args
}

// newReal runs a container and waits until the engine calls it healthy.
func (p *podman) newReal(name, volume string) *real {
	p.t.Helper()
	c := &real{podman: p, name: name, volume: volume}
	p.must(append(append([]string{"run", "-d", "--name", name, "-p", "127.0.0.1::8642"}, p.asCompose(name, volume)...), "gatewayd")...)
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("log of %s:\n%.6000s", name, c.log())
		}
	})
	return c.healthy()
}

func (c *real) log() string { out, _ := c.run("logs", c.name); return out }

// healthy waits until the image's health check, as the engine runs it, says so. Where systemd runs the engine does that by itself.
func (c *real) healthy() *real {
	c.t.Helper()
	said, code := "", 0
	if !vigil.Until(2*patience, nil, func() bool { said, code = c.run("healthcheck", "run", c.name); return code == 0 }) {
		c.t.Fatalf("%s is not healthy: %s", c.name, said)
	}
	if status := c.inspect("{{.State.Health.Status}}"); status != "healthy" {
		c.t.Errorf("the engine calls %s %q", c.name, status)
	}
	pid, err := strconv.Atoi(c.inspect("{{.State.Pid}}"))
	key, kerr := os.ReadFile(filepath.Join(c.home(), "api.key"))
	if err != nil || kerr != nil {
		c.t.Fatal(err, kerr)
	}
	c.pid, c.key, c.base = pid, strings.TrimSpace(string(key)), "http://"+strings.TrimSpace(c.must("port", c.name, "8642"))
	return c
}

func (c *real) inspect(format string) string { return c.must("inspect", "--format", format, c.name) }

func (c *real) home() string {
	return c.must("volume", "inspect", "--format", "{{.Mountpoint}}", c.volume)
}

// call speaks to the API through the published port, as a program on the same machine does.
func (c *real) call(method, path string, body, out any) {
	c.t.Helper()
	speak(c.t, http.DefaultClient, method, c.base+path, c.key, body, out)
}

// say runs one turn and gives what the conversation has then.
func (c *real) say(text string) []row {
	c.t.Helper()
	c.call(http.MethodPost, "/v1/chat/completions", map[string]any{"model": "gatewayd", "messages": []map[string]string{{"role": "user", "content": text}}}, nil)
	return c.rows()
}

func (c *real) rows() []row {
	c.t.Helper()
	var list struct{ Messages []row }
	c.call(http.MethodGet, "/api/sessions/s/messages", nil, &list)
	return list.Messages
}

func (p *podman) lives() {
	c := p.newReal("first", "home")
	c.unprivileged()
	if info, err := os.Stat(c.home()); err != nil || info.Mode() != fs.ModeDir|0o700 || info.Sys().(*syscall.Stat_t).Uid != 10000 {
		p.t.Errorf("the volume that the engine made of the image: %v %v", info, err)
	}
	if strings.Contains(c.log(), "WARN") || strings.Contains(c.log(), "ERROR") {
		p.t.Errorf("a new container complains:\n%s", c.log())
	}
	if rows := c.say("hello"); len(rows) != 2 || rows[1].Content != "from the model" {
		p.t.Errorf("rows after a turn: %+v", rows)
	}
	c.refuses()

	p.must("stop", "-t", "120", c.name)
	if code, log := c.inspect("{{.State.ExitCode}}"), c.log(); code != "0" || !strings.Contains(log, `"msg":"stopped"`) {
		p.t.Errorf("exit code %s after a stop:\n%s", code, log)
	}
	p.must("start", c.name)
	if n := len(c.healthy().say("again")); n != 4 {
		p.t.Errorf("%d rows after a stop and another turn", n)
	}
	p.must("kill", "-s", "KILL", c.name)
	if code := p.must("wait", c.name); code != "137" {
		p.t.Errorf("exit code %s after kill -9", code)
	}
	next := p.newReal("heir", c.volume)
	if n := len(next.say("once more")); n != 6 {
		p.t.Errorf("%d rows after kill -9 and another container on the volume", n)
	}
}

// refuses shows what a second container on the same volume is told.
func (c *real) refuses() {
	c.t.Helper()
	out, code := c.run(append(append([]string{"run", "--rm"}, c.asCompose("second", c.volume)...), "gatewayd")...)
	if code != 78 || strings.Count(out, "\n") > 0 {
		c.t.Errorf("exit code %d, want 78 and one line: %s", code, out)
	}
	for _, word := range []string{"another container, first", "pid 1 there", "nothing was touched"} {
		if !strings.Contains(out, word) {
			c.t.Errorf("does not say %q: %s", word, out)
		}
	}
}

// unprivileged looks from outside at the container's first process.
func (c *real) unprivileged() {
	c.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, line := range []string{"Uid:\t10000\t10000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "NSpid:\t" + strconv.Itoa(c.pid) + "\t1"} {
		if !strings.Contains(string(status), line) {
			c.t.Errorf("the program has not %q:\n%s", line, status)
		}
	}
	var root unix.Statfs_t
	if err := unix.Statfs(fmt.Sprintf("/proc/%d/root", c.pid), &root); err != nil || root.Flags&unix.ST_RDONLY == 0 {
		c.t.Errorf("the root can be written: %+v %v", root, err)
	}
}

// storms ends a thousand processes without a parent in the container, whose image has no shell: this machine's enters it.
func (p *podman) storms() {
	c := p.newReal("storm", "storm")
	script := "i=0; while [ $i -lt 1000 ]; do (/bin/true & ) ; i=$((i+1)); done; echo over"
	out, err := exec.Command("nsenter", "-t", strconv.Itoa(c.pid), "-p", "--", "/bin/sh", "-c", script).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "over" {
		p.t.Fatalf("the storm: %v %s", err, out)
	}
	if !vigil.Until(patience, nil, func() bool { return zombies(p.t, c.pid) == 0 }) {
		p.t.Fatalf("%d zombies remain", zombies(p.t, c.pid))
	}
	if n := len(c.say("still there")); n != 2 {
		p.t.Errorf("%d rows", n)
	}
}
