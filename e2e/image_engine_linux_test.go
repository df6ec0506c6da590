package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/deploy"
	"gatewayd/internal/fakellm"
)

// compileImage makes the engine compile the program in the build stage, as people do; it takes minutes. Without it the compiler of that
// stage is a script that hands over the program that these tests built already.
var compileImage = flag.Bool("image", false, "compile the program in the image's build stage")

// podman is a real container engine with a store, networks and volumes of its own, which go when the test ends.
type podman struct {
	t       *testing.T
	dir     string
	env     []string
	network string
	gateway string // this machine as a container sees it
	model   *fakellm.Server
}

// buildStage is the name that the Dockerfile's first stage begins from. No registry is asked: an image of this name is made here.
const buildStage = "docker.io/library/golang:1.26"

// newPodman starts an engine, or skips aloud where none works.
func newPodman(t *testing.T) *podman {
	t.Helper()
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("SKIPPED: there is no podman here, so the image is NOT built and run by a real engine: ", err)
	}
	p := &podman{t: t, dir: t.TempDir()}
	p.env = append(homeEnv(p.dir), "CONTAINERS_CONF="+p.file("containers.conf"), "CONTAINERS_STORAGE_CONF="+p.file("storage.conf"),
		"CONTAINERS_REGISTRIES_CONF="+os.DevNull, "BUILDAH_ISOLATION=chroot")
	t.Cleanup(p.remove)
	said := ""
	for _, runtime := range []string{"runc", "crun"} { // crun does not know a machine with both kinds of cgroups
		p.configure(runtime)
		said = p.begin()
		if said == "" {
			return p
		}
		t.Logf("%s: %s", runtime, said)
	}
	t.Skip("SKIPPED: no container can be run here, so the image is NOT built and run by a real engine: ", said)
	return nil
}

func (p *podman) file(name string) string { return filepath.Join(p.dir, name) }

func (p *podman) configure(runtime string) {
	p.t.Helper()
	var files, processes unix.Rlimit // a container gets no more than this machine lets us have
	err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &files), unix.Getrlimit(unix.RLIMIT_NPROC, &processes))
	containers := fmt.Sprintf(`[containers]
default_ulimits = ["nofile=%[1]d:%[1]d", "nproc=%[2]d:%[2]d"]
log_driver = "k8s-file"
[engine]
runtime = %[3]q
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = %[4]q
[network]
network_config_dir = %[5]q
`, files.Max, min(processes.Max, 4096), runtime, p.file("tmp"), p.file("networks"))
	storage := fmt.Sprintf("[storage]\ndriver = \"overlay\"\nrunroot = %q\ngraphroot = %q\n", p.file("run"), p.file("store"))
	err = errors.Join(err, os.WriteFile(p.file("containers.conf"), []byte(containers), 0o600), os.WriteFile(p.file("storage.conf"), []byte(storage), 0o600))
	if err != nil {
		p.t.Fatal(err)
	}
}

// begin makes the image of the build stage and the network, and runs a container of both. What does not work is said.
func (p *podman) begin() string {
	p.t.Helper()
	p.network = fmt.Sprintf("gw%d", os.Getpid())
	subnet := fmt.Sprintf("10.%d.%d.", 200+os.Getpid()>>8&31, os.Getpid()&255) // beside other runs of these tests
	p.gateway = subnet + "1"
	for _, step := range [][]string{
		{"import", "-q", "-c", "ENV PATH=" + p.path(), "-c", "ENV GOPATH=/go GOCACHE=/cache", p.base(), buildStage},
		{"network", "create", "--disable-dns", "--subnet", subnet + "0/24", p.network},
	} {
		if out, code := p.run(step...); code != 0 && !strings.Contains(out, "already exists") {
			return fmt.Sprint(step, ": ", out)
		}
	}
	try := append(append([]string{"run", "--rm", "--network", p.network, "-p", "127.0.0.1::1"}, p.mounts()...), buildStage, "/bin/sh", "-c", ":")
	if out, code := p.run(try...); code != 0 {
		return fmt.Sprint(try, ": ", out)
	}
	return ""
}

// base is the root of the build stage: what the Dockerfile copies from it, and places for what is mounted while a command of it runs.
func (p *podman) base() string {
	p.t.Helper()
	certificates, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		certificates = []byte("none on this machine\n")
	}
	zones, err := os.ReadFile(filepath.Join(goRoot(p.t), "lib/time/zoneinfo.zip"))
	if err != nil {
		p.t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, dir := range []string{"bin/", "lib/", "lib64/", "usr/", "usr/bin/", "tmp/", "root/", "go/", "etc/"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}))
	}
	for name, data := range map[string][]byte{"etc/ssl/certs/ca-certificates.crt": certificates, "usr/local/go/lib/time/zoneinfo.zip": zones} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}))
		_, werr := w.Write(data)
		err = errors.Join(err, werr)
	}
	path := p.file("base.tar")
	if err = errors.Join(err, w.Close(), os.WriteFile(path, archive.Bytes(), 0o600)); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *podman) path() string {
	if *compileImage {
		return "/usr/local/go/bin:/usr/bin:/bin"
	}
	return "/compiler:/usr/bin:/bin"
}

// mounts lend the build stage this machine's programs, and its compiler with what that has fetched and compiled already, or what stands for it.
func (p *podman) mounts() (args []string) {
	p.t.Helper()
	lend := func(from, to string, options ...string) {
		if real, err := filepath.EvalSymlinks(from); err == nil {
			args = append(args, "-v", strings.Join(append([]string{real, to}, options...), ":"))
		}
	}
	for _, dir := range []string{"/bin", "/usr/bin", "/lib", "/lib64", "/usr/lib"} {
		lend(dir, dir, "ro")
	}
	if *compileImage {
		lend(goRoot(p.t), "/usr/local/go", "ro")
		for name, at := range map[string]string{"GOMODCACHE": "/go/pkg/mod", "GOCACHE": "/cache"} {
			out, err := exec.Command("go", "env", name).Output()
			if err != nil {
				p.t.Fatal(err)
			}
			lend(strings.TrimSpace(string(out)), at)
		}
		return args
	}
	const compiler = "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && mkdir -p \"${2%/*}\" && exec cp /program \"$2\"; shift; done\n"
	dir := p.file("compiler")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "go"), []byte(compiler), 0o755)); err != nil {
		p.t.Fatal(err)
	}
	lend(dir, "/compiler", "ro")
	lend(program, "/program", "ro")
	return args
}

// run gives what podman says and its exit code.
func (p *podman) run(args ...string) (string, int) {
	out, _, code := p.both(args...)
	return out, code
}

// both gives standard output and error in one, standard output alone, and the exit code.
func (p *podman) both(args ...string) (all, out string, code int) {
	p.t.Helper()
	limit := 4 * patience
	if *compileImage {
		limit = 20 * time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "podman", args...)
	var joined, only bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, &only, &joined
	cmd.WaitDelay = time.Second // conmon keeps the pipes of a container that goes on
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended && !errors.Is(err, exec.ErrWaitDelay) {
		p.t.Errorf("podman %q: %v", args, err)
	}
	out = strings.TrimSpace(only.String())
	return out + calm(joined.String()), out, cmd.ProcessState.ExitCode()
}

// calm leaves out that the engine has no systemd to run health checks with: the tests run them.
func calm(said string) (kept string) {
	for line := range strings.Lines(said) {
		if !strings.Contains(line, "systemd connection") && !strings.Contains(line, "connect to syslog") {
			kept += line
		}
	}
	return strings.TrimSpace(kept)
}

// must is run for what has to work; it gives standard output.
func (p *podman) must(args ...string) string {
	p.t.Helper()
	all, out, code := p.both(args...)
	if code != 0 {
		p.t.Fatalf("podman %q: exit code %d: %s", args, code, all)
	}
	return out
}

// build lets the engine do what the Dockerfile says.
func (p *podman) build() {
	p.t.Helper()
	args := append([]string{"build", "--format", "docker", "--layers=false", "--pull=never", "-f", "../deploy/Dockerfile", "-t", "gatewayd"}, p.mounts()...)
	p.must(append(args, "..")...)
}

// serveModel answers at this machine's address in the containers' network, which comes with the first container.
func (p *podman) serveModel() {
	p.t.Helper()
	free := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		cerr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1) })
		return errors.Join(cerr, err)
	}}
	l, err := free.Listen(p.t.Context(), "tcp", net.JoinHostPort(p.gateway, "0"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.model = fakellm.Start(fakellm.Options{Listener: l, Each: func(fakellm.Request) fakellm.Response { return fakellm.Text{Text: "from the model"} }})
	p.t.Cleanup(p.model.Close)
}

// remove ends all containers and gives back what the kernel holds for the engine.
func (p *podman) remove() {
	for _, step := range [][]string{{"pod", "rm", "-fa"}, {"rm", "-fa", "-t", "0"}, {"volume", "rm", "-fa"}, {"network", "prune", "-f"}, {"image", "rm", "-fa"}} {
		if out, code := p.run(step...); code != 0 {
			p.t.Logf("%v: %s", step, out)
		}
	}
	_ = unix.Unmount(filepath.Join(p.dir, "store", "overlay"), unix.MNT_DETACH)
}

func readImage(t *testing.T) deploy.Image {
	t.Helper()
	image, err := deploy.Read()
	if err != nil {
		t.Fatal(err)
	}
	return image
}
