package config

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gatewayd/internal/problem"
)

func TestWithoutAFileTheDefaultsAreInForce(t *testing.T) {
	home := homeWith(t, "")
	l := load(t, home)
	want := Default()
	want.Home, want.Kanban.Root = home, home
	if diff := cmp.Diff(want, l.Config); diff != "" {
		t.Error(diff)
	}
	if l.API.Addr != "127.0.0.1:8642" || l.Kanban.CrashGrace != 30*time.Second || l.Tools.Terminal != "deny" {
		t.Errorf("defaults are not the documented ones: %+v", l.Config)
	}
	if from := l.Origins["api.addr"]; from != (Origin{Value: "127.0.0.1:8642", Source: FromDefault}) {
		t.Errorf("origin of a default: %+v", from)
	}
}

func TestLaterSourcesWinAndSayWhereTheyAre(t *testing.T) {
	home := homeWith(t, "api:\n  addr: 127.0.0.1:1\n  max_body_bytes: 2048\nmodel:\n  name: a\nlog:\n  level: debug\n")
	l, err := Load(Request{
		Flags:   map[string]string{"home": home, "addr": "127.0.0.1:3", "kanban.interval": "5s"},
		Environ: []string{"GATEWAYD_ADDR=127.0.0.1:2", "GATEWAYD_MODEL_NAME=b", "GATEWAYD_LOG_LEVEL="},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "config.yaml")
	for key, want := range map[string]Origin{
		"api.addr":           {"127.0.0.1:3", FromFlag, "--addr", "GATEWAYD_ADDR, " + file + ":2"},
		"kanban.interval":    {"5s", FromFlag, "--kanban.interval", ""},
		"model.name":         {"b", FromEnv, "GATEWAYD_MODEL_NAME", file + ":5"},
		"api.max_body_bytes": {"2048", FromFile, file + ":3", ""},
		"log.level":          {"debug", FromFile, file + ":7", ""}, // an empty variable is none
		"home":               {home, FromFlag, "--home", ""},
	} {
		if got := l.Origins[key]; got != want {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
	if l.API.Addr != "127.0.0.1:3" || l.Model.Name != "b" || l.API.MaxBodyBytes != 2048 {
		t.Errorf("values do not follow their origins: %+v", l.Config)
	}
}

func TestEveryRowOfShowHasAnOrigin(t *testing.T) {
	home := homeWith(t, "kanban:\n  lanes:\n    tests: {argv: [make, test], env: {API_TOKEN: hunter2, CI: 1}}\n")
	seen := map[string]Row{}
	for _, row := range load(t, home, "GATEWAYD_MODEL_API_KEY=hunter2").Rows() {
		if row.Source == "" {
			t.Errorf("%s has no origin", row.Key)
		}
		if strings.Contains(row.Value, "hunter2") {
			t.Errorf("%s shows a secret", row.Key)
		}
		seen[row.Key] = row
	}
	for _, key := range []string{"home", "model.api_key", "kanban.root", "kanban.lanes.tests.argv", "log.format"} {
		if _, ok := seen[key]; !ok {
			t.Errorf("%s is not shown", key)
		}
	}
	if row := seen["kanban.lanes.tests.env"]; row.Value != `{API_TOKEN: [redacted], CI: "1"}` {
		t.Errorf("env of a lane is shown as %s", row.Value)
	}
}

func TestExampleLoadsEqualToTheDefaults(t *testing.T) {
	plain := load(t, homeWith(t, ""))
	uncommented := regexp.MustCompile(`(?m)^(\s*)#([a-z_]+:)`).ReplaceAllString(Example(), "$1$2")
	for name, text := range map[string]string{"as written": Example(), "every mark removed": uncommented} {
		home := homeWith(t, text)
		l := load(t, home)
		l.Home, l.Kanban.Root = plain.Home, plain.Kanban.Root
		if diff := cmp.Diff(plain.Config, l.Config, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for key, from := range l.Origins {
			if name == "every mark removed" && from.Source == FromDefault && key != "kanban.root" {
				t.Errorf("the example does not hold %s", key)
			}
		}
	}
}

func TestHomeIsFoundInOrder(t *testing.T) {
	a, b, user := t.TempDir(), t.TempDir(), t.TempDir()
	environ := []string{"HOME=" + user, "GATEWAYD_HOME=" + b}
	for _, c := range []struct {
		flags   map[string]string
		environ []string
		want    string
	}{
		{map[string]string{"home": a}, environ, a},
		{nil, environ, b},
		{nil, environ[:1], filepath.Join(user, ".gatewayd")},
		{nil, []string{"HOME=" + user, "GATEWAYD_HOME=~/x"}, filepath.Join(user, "x")},
		{nil, []string{"HOME=" + user, "GATEWAYD_HOME="}, filepath.Join(user, ".gatewayd")},
	} {
		l, err := Load(Request{Flags: c.flags, Environ: c.environ})
		if err != nil || l.Home != c.want {
			t.Errorf("flags %v, environ %v: home %q, %v; want %q", c.flags, c.environ, l.Home, err, c.want)
		}
	}
}

func TestAnUnknownHomeIsOneClearProblem(t *testing.T) {
	for _, req := range []Request{
		{},
		{Environ: []string{"HOME="}},
		{Environ: []string{"HOME=relative"}},
		{Flags: map[string]string{"home": ""}, Environ: []string{"HOME=/tmp"}},
	} {
		_, err := Load(req)
		if !problem.Is(err, problem.Config) {
			t.Errorf("%+v: %v", req, err)
		}
	}
	_, err := Load(Request{})
	wantParts(t, err.Error(), "HOME is not set", "--home")
}

func TestBoardRootFollowsFileThenVariableThenHome(t *testing.T) {
	root := t.TempDir()
	variable := "GATEWAYD_KANBAN_HOME=" + root
	if l := load(t, homeWith(t, ""), variable); l.Kanban.Root != root || l.Origins["kanban.root"].Place != "GATEWAYD_KANBAN_HOME" {
		t.Errorf("variable: %q from %+v", l.Kanban.Root, l.Origins["kanban.root"])
	}
	home := homeWith(t, "kanban: {root: boards}\n")
	if l := load(t, home, variable); l.Kanban.Root != filepath.Join(home, "boards") {
		t.Errorf("the file's root must win over the variable: %q", l.Kanban.Root)
	}
	home = homeWith(t, "")
	foreign := "HERMES_KANBAN_HOME=" + root
	if l := load(t, home, foreign); l.Kanban.Root != home {
		t.Errorf("a path of the original counts outside a worker: %q", l.Kanban.Root)
	}
	if l := load(t, home, foreign, "HERMES_KANBAN_TASK=t1", "HERMES_KANBAN_RUN_ID=7", "HERMES_KANBAN_CLAIM_LOCK=host:1"); l.Kanban.Root != root {
		t.Errorf("a path of the original does not count inside a worker: %q", l.Kanban.Root)
	}
}
