package house

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"gatewayd/config"
	"gatewayd/registry"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stopNeeds is how long the daemon may take to stop; whoever kills it earlier kills it in the middle.
func stopNeeds() time.Duration {
	return config.Default().Agent.ShutdownGrace + registry.DefaultCloseTimeout + 10*time.Second
}

func TestTheImageIsStaticAndNobodysRoot(t *testing.T) {
	text := deployed(t, "Dockerfile")
	_, port, err := net.SplitHostPort(config.Default().API.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"CGO_ENABLED=0", "\nFROM scratch\n", "\nUSER 10000:10000\n", "\nVOLUME /data\n", "GATEWAYD_HOME=/data",
		"GATEWAYD_ADDR=0.0.0.0:" + port, "\nEXPOSE " + port + "\n", `CMD ["/gatewayd", "status"]`, `ENTRYPOINT ["/gatewayd"]`, "ca-certificates.crt",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the Dockerfile lacks %q", line)
		}
	}
}

func TestTheComposeFileWaitsAndKeepsTheHome(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Stop     string            `yaml:"stop_grace_period"`
			Ports    []string          `yaml:"ports"`
			Volumes  []string          `yaml:"volumes"`
			Env      map[string]string `yaml:"environment"`
			ReadOnly bool              `yaml:"read_only"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(deployed(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	service := file.Services["gatewayd"]
	if stop, err := time.ParseDuration(service.Stop); err != nil || stop < stopNeeds() {
		t.Errorf("stop_grace_period %q is less than %v: %v", service.Stop, stopNeeds(), err)
	}
	if len(service.Ports) != 1 || !strings.HasPrefix(service.Ports[0], "127.0.0.1:") {
		t.Errorf("ports %q are open to the network", service.Ports)
	}
	name, _, _ := strings.Cut(strings.Join(service.Volumes, ""), ":")
	if _, native := file.Volumes[name]; !native || !service.ReadOnly {
		t.Errorf("volumes %q, read only %v", service.Volumes, service.ReadOnly)
	}
	var environ []string
	for name := range service.Env {
		environ = append(environ, name+"=")
	}
	loads(t, environ)
}

func TestTheSidecarWaitsAndIsNobodysRoot(t *testing.T) {
	text := deployed(t, "kubernetes.yaml")
	var pod struct {
		Spec struct {
			Template struct {
				Spec struct {
					Grace        int  `yaml:"terminationGracePeriodSeconds"`
					ServiceLinks bool `yaml:"enableServiceLinks"`
					Security     struct {
						NonRoot bool `yaml:"runAsNonRoot"`
					} `yaml:"securityContext"`
					Init []struct {
						Restart string `yaml:"restartPolicy"`
						Env     []struct{ Name, Value string }
					} `yaml:"initContainers"`
				}
			}
		}
	}
	documents := strings.Split(text, "\n---\n")
	if err := yaml.Unmarshal([]byte(documents[len(documents)-1]), &pod); err != nil {
		t.Fatal(err)
	}
	spec := pod.Spec.Template.Spec
	if grace := time.Duration(spec.Grace) * time.Second; grace < stopNeeds() {
		t.Errorf("terminationGracePeriodSeconds is %v; stopping may take %v", grace, stopNeeds())
	}
	if spec.ServiceLinks || !spec.Security.NonRoot || len(spec.Init) != 1 || spec.Init[0].Restart != "Always" {
		t.Errorf("%+v", spec)
	}
	var environ []string
	for _, e := range spec.Init[0].Env {
		environ = append(environ, e.Name+"="+e.Value)
	}
	loads(t, environ)
}

// loads checks an environment by the loader that the daemon will use, in a home of its own.
func loads(t *testing.T, environ []string) {
	t.Helper()
	if _, err := config.Load(config.Request{Flags: map[string]string{"home": t.TempDir()}, Environ: environ}); err != nil {
		t.Errorf("the daemon would refuse its environment: %v", err)
	}
}

// The README and the script of checks must not drift from what they name.
func TestTheScriptOfChecksRunsTheReadmesCommands(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(top, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "go run ./cmd/gatewayd demo") || !strings.Contains(string(readme), "go run ./cmd/gatewayd demo") {
		t.Error("the demo is not run as the README says")
	}
	if !regexp.MustCompile(`tests -timeout .*\./\.\.\.`).Match(script) || !strings.Contains(string(readme), "go test ./...") {
		t.Error("the tests are not run as the README says")
	}
}
