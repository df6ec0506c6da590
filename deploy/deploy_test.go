package deploy

import (
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"gatewayd/config"
	"gatewayd/registry"
)

// stopNeeds is how long the daemon may take to stop; whoever kills it earlier kills it in the middle.
func stopNeeds() time.Duration {
	return config.Default().Agent.ShutdownGrace + registry.DefaultCloseTimeout + 10*time.Second
}

func image(t *testing.T) Image {
	t.Helper()
	i, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestTheImageIsStaticAndNobodysRoot(t *testing.T) {
	i := image(t)
	_, port, err := net.SplitHostPort(config.Default().API.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if i.UID < 10000 || i.GID < 10000 || i.Port != port || i.Stop != "SIGTERM" || !slices.Equal(i.Entrypoint, []string{"/gatewayd"}) {
		t.Errorf("%+v", i)
	}
	if !slices.Equal(i.Health, []string{"/gatewayd", "health"}) {
		t.Errorf("health check %q", i.Health)
	}
	for _, want := range []string{"GATEWAYD_HOME=" + i.Volume, "GATEWAYD_ADDR=0.0.0.0:" + port} {
		if !slices.Contains(i.Env, want) {
			t.Errorf("the environment lacks %s: %q", want, i.Env)
		}
	}
	if !slices.ContainsFunc(i.Runs, func(run string) bool { return strings.HasPrefix(run, "CGO_ENABLED=0 go build -trimpath") }) {
		t.Errorf("the program is not built static: %q", i.Runs)
	}
	numbers := strconv.Itoa(i.UID) + ":" + strconv.Itoa(i.GID)
	if !strings.Contains(strings.Join(i.Runs, "\n"), ":x:"+numbers+":gatewayd:"+i.Volume+":") {
		t.Errorf("user %s has no name: %q", numbers, i.Runs)
	}
	if !slices.Contains(i.Copies, Copy{From: "/out/own", To: "/", UID: i.UID, GID: i.GID}) {
		t.Errorf("nothing is the user's: %+v", i.Copies)
	}
	if i.Volume != "/data" {
		t.Errorf("the volume is at %s", i.Volume)
	}
	loads(t, i.Env)
}

// An engine makes a directory that is copied to by itself, open to all, and gives a new volume its rights.
func TestWhatTheUserOwnsKeepsItsRights(t *testing.T) {
	stage := Stage{Out: t.TempDir(), Program: os.Args[0], GoRoot: t.TempDir(), Shell: func(ctx context.Context, script string) error {
		return exec.CommandContext(ctx, "sh", "-c", script).Run()
	}}
	i, root := image(t), t.TempDir()
	i.Copies = slices.DeleteFunc(i.Copies, func(c Copy) bool { return !strings.HasPrefix(c.From, "/out") })
	if err := i.Build(t.Context(), stage, root); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{i.Volume: fs.ModeDir | 0o700, "/tmp": fs.ModeDir | fs.ModeSticky | 0o777, "/etc": fs.ModeDir | 0o755} {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", path, info, err, want)
		}
	}
}

func TestTheComposeFileAgreesWithTheImage(t *testing.T) {
	i := image(t)
	var file struct {
		Services map[string]struct {
			Stop     string            `yaml:"stop_grace_period"`
			Host     string            `yaml:"hostname"`
			Ports    []string          `yaml:"ports"`
			Volumes  []string          `yaml:"volumes"`
			Env      map[string]string `yaml:"environment"`
			ReadOnly bool              `yaml:"read_only"`
			Tmpfs    []string          `yaml:"tmpfs"`
			Drop     []string          `yaml:"cap_drop"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(Compose), &file); err != nil {
		t.Fatal(err)
	}
	s := file.Services["gatewayd"]
	if stop, err := time.ParseDuration(s.Stop); err != nil || stop < stopNeeds() {
		t.Errorf("stop_grace_period %q is less than %v: %v", s.Stop, stopNeeds(), err)
	}
	if !slices.Equal(s.Ports, []string{"127.0.0.1:${PORT:-" + i.Port + "}:" + i.Port}) {
		t.Errorf("ports %q: want the image's, published to loopback", s.Ports)
	}
	if s.Host == "" {
		t.Error("no host name: each container would have another, and wait for the claims of the one before it")
	}
	name, at, _ := strings.Cut(strings.Join(s.Volumes, ""), ":")
	if _, native := file.Volumes[name]; !native || at != i.Volume {
		t.Errorf("volumes %q: want a native one at %s", s.Volumes, i.Volume)
	}
	if !s.ReadOnly || !slices.Equal(s.Tmpfs, []string{"/tmp"}) || !slices.Equal(s.Drop, []string{"ALL"}) {
		t.Errorf("%+v", s)
	}
	var environ []string
	for name := range s.Env {
		environ = append(environ, name+"=")
	}
	loads(t, environ)
}

type probe struct {
	Exec struct{ Command []string }
	Time int `yaml:"timeoutSeconds"`
}

type pod struct {
	Grace        int  `yaml:"terminationGracePeriodSeconds"`
	ServiceLinks bool `yaml:"enableServiceLinks"`
	Security     struct {
		NonRoot bool `yaml:"runAsNonRoot"`
		User    int  `yaml:"runAsUser"`
		Group   int  `yaml:"runAsGroup"`
		Files   int  `yaml:"fsGroup"`
	} `yaml:"securityContext"`
	Init []struct {
		Restart        string `yaml:"restartPolicy"`
		Env            []struct{ Name, Value string }
		StartupProbe   probe `yaml:"startupProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
		LivenessProbe  probe `yaml:"livenessProbe"`
		Security       struct {
			Escalation   bool `yaml:"allowPrivilegeEscalation"`
			ReadOnly     bool `yaml:"readOnlyRootFilesystem"`
			Capabilities struct{ Drop []string }
		} `yaml:"securityContext"`
		Mounts []struct {
			Name string
			Path string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	} `yaml:"initContainers"`
	Volumes []struct {
		Name     string
		EmptyDir struct{ Medium string } `yaml:"emptyDir"`
	}
}

func TestTheSidecarAgreesWithTheImage(t *testing.T) {
	i := image(t)
	var file struct {
		Kind string
		Spec struct {
			Replicas int
			Template struct{ Spec pod }
			Claims   []struct {
				Metadata struct{ Name string }
			} `yaml:"volumeClaimTemplates"`
		}
	}
	documents := strings.Split(Kubernetes, "\n---\n")
	if err := yaml.Unmarshal([]byte(documents[len(documents)-1]), &file); err != nil {
		t.Fatal(err)
	}
	if file.Kind != "StatefulSet" {
		t.Errorf("%s: the next pod would have another host name, and wait for the claims of the one before it", file.Kind)
	}
	spec := file.Spec.Template.Spec
	if grace := time.Duration(spec.Grace) * time.Second; grace < stopNeeds() {
		t.Errorf("terminationGracePeriodSeconds is %v; stopping may take %v", grace, stopNeeds())
	}
	if s := spec.Security; !s.NonRoot || s.User != i.UID || s.Group != i.GID || s.Files != i.GID {
		t.Errorf("%+v, want the image's %d:%d", s, i.UID, i.GID)
	}
	if spec.ServiceLinks || file.Spec.Replicas != 1 || len(spec.Init) != 1 || spec.Init[0].Restart != "Always" {
		t.Fatalf("%+v", file.Spec)
	}
	c := spec.Init[0]
	if c.Security.Escalation || !c.Security.ReadOnly || !slices.Equal(c.Security.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("%+v", c.Security)
	}
	for _, p := range []struct {
		probe
		want []string
	}{{c.StartupProbe, i.Health}, {c.ReadinessProbe, i.Health}, {c.LivenessProbe, append(slices.Clone(i.Health), "--live")}} {
		if !slices.Equal(p.Exec.Command, p.want) || p.Time < 5 {
			t.Errorf("probe %+v, want %q and time for it", p.probe, p.want)
		}
	}
	at := map[string]string{}
	for _, m := range c.Mounts {
		at[m.Name] = m.Path
	}
	if claims := file.Spec.Claims; len(claims) != 1 || at[claims[0].Metadata.Name] != i.Volume {
		t.Errorf("mounts %v: the claim is not at %s", at, i.Volume)
	}
	if len(spec.Volumes) != 1 || spec.Volumes[0].EmptyDir.Medium != "Memory" || at[spec.Volumes[0].Name] != "/tmp" {
		t.Errorf("/tmp is no memory: %+v", spec.Volumes)
	}
	var environ []string
	for _, e := range c.Env {
		environ = append(environ, e.Name+"="+e.Value)
		if e.Name == "GATEWAYD_HOME" && !strings.HasPrefix(e.Value, i.Volume+"/") || e.Name == "GATEWAYD_ADDR" && !strings.HasSuffix(e.Value, ":"+i.Port) {
			t.Errorf("%+v", e)
		}
	}
	loads(t, environ)
}

// loads checks an environment by the loader that the daemon will use, in a home of its own.
func loads(t *testing.T, environ []string) {
	t.Helper()
	environ = append(environ, "GATEWAYD_INSECURE_BIND=true") // what the image is run with, as compose does
	if _, err := config.Load(config.Request{Flags: map[string]string{"home": t.TempDir()}, Environ: environ}); err != nil {
		t.Errorf("the daemon would refuse its environment: %v", err)
	}
}
