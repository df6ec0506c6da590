package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

func TestBadFilesAreRefusedWithPlaceAndRemedy(t *testing.T) {
	for name, c := range map[string]struct {
		yaml string
		want []string
	}{
		"misspelt key":         {"api:\n  adr: 127.0.0.1:1\n", []string{"config.yaml:2: api.adr is not a setting", "did you mean api.addr?"}},
		"misspelt section":     {"kanbann:\n  interval: 60s\n", []string{":1: kanbann is not a setting", "did you mean kanban?"}},
		"camel case":           {"model:\n  baseURL: http://x/v1\n", []string{":2: model.baseURL", "did you mean model.base_url?"}},
		"swapped letters":      {"kanban:\n  intevral: 60s\n", []string{"did you mean kanban.interval?"}},
		"wrong section":        {"agent:\n  failure_limit: 3\n", []string{"did you mean kanban.failure_limit?"}},
		"no section":           {"addr: 127.0.0.1:1\n", []string{":1: addr is not a setting", "did you mean api.addr?"}},
		"the original's name":  {"kanban:\n  dispatch_in_gateway: true\n", []string{"did you mean kanban.dispatch?"}},
		"nothing near":         {"api:\n  zzzzqqqq: 1\n", []string{"api.zzzzqqqq is not a setting", "config show"}},
		"deep in a lane":       {"kanban:\n  lanes:\n    a:\n      preset: agent\n      max_runtme: 1h\n", []string{":5: kanban.lanes.a.max_runtme", "kanban.lanes.a.max_runtime?"}},
		"text for a number":    {"agent:\n  max_iterations: many\n", []string{":2: agent.max_iterations must be a whole number"}},
		"quoted number":        {"agent:\n  max_iterations: \"5\"\n", []string{"without quotes"}},
		"number for text":      {"model:\n  name: 4\n", []string{":2: model.name must be text: put it in quotes"}},
		"text for a switch":    {"kanban:\n  dispatch: yes\n", []string{":2: kanban.dispatch must be true or false"}},
		"duration, no unit":    {"kanban:\n  interval: 60\n", []string{":2: kanban.interval must be a duration with a unit", "60s"}},
		"duration, bad unit":   {"kanban:\n  interval: 60 seconds\n", []string{"must be a duration with a unit"}},
		"duration, list":       {"kanban:\n  interval: [1s]\n", []string{"must be a duration"}},
		"duration, endless":    {"kanban:\n  claim_ttl: 2000000h\n", []string{"must be at most 876000h"}},
		"negative duration":    {"kanban:\n  crash_grace: -5s\n", []string{":2: kanban.crash_grace must not be negative"}},
		"negative number":      {"kanban:\n  max_in_progress: -1\n", []string{"kanban.max_in_progress must not be negative"}},
		"below the least":      {"kanban:\n  interval: 10ms\n", []string{"kanban.interval must be at least 1s"}},
		"zero where one":       {"kanban:\n  failure_limit: 0\n", []string{"must be at least 1"}},
		"huge number":          {"agent:\n  max_iterations: 99999999999999999999\n", []string{":2: agent.max_iterations"}},
		"no value":             {"kanban:\n  interval:\n", []string{":2: kanban.interval has no value"}},
		"section as text":      {"api: 127.0.0.1:1\n", []string{":1: api must be a section"}},
		"section as list":      {"api:\n  - addr\n", []string{"api must be a section"}},
		"file as list":         {"- a\n- b\n", []string{"the file must hold sections"}},
		"file as text":         {"hello\n", []string{":1: the file must hold sections"}},
		"twice":                {"api:\n  addr: 127.0.0.1:1\n  addr: 127.0.0.1:2\n", []string{":3: api.addr is given twice", "config.yaml:2"}},
		"section twice":        {"api: {}\nlog: {}\napi: {}\n", []string{":3: api is given twice", "config.yaml:1"}},
		"lane twice":           {"kanban:\n  lanes:\n    a: {preset: agent}\n    a: {preset: agent}\n", []string{":4: kanban.lanes.a is given twice"}},
		"lane's env twice":     {"kanban:\n  lanes:\n    a: {argv: [x], env: {A: 1, A: 2}}\n", []string{"kanban.lanes.a.env gives A twice"}},
		"alias":                {"model:\n  name: &n x\n  base_url: *n\n", []string{":2: model.name", "anchor", ":3: model.base_url"}},
		"merge":                {"model:\n  <<: {name: x}\n", []string{":2 has a key that is not plain text"}},
		"list as text":         {"api:\n  allowed_hosts: box\n", []string{"api.allowed_hosts must be a list"}},
		"list of lists":        {"api:\n  allowed_hosts: [[a]]\n", []string{"item 1 is not one"}},
		"two documents":        {"api: {}\n---\nlog: {}\n", []string{":3 starts a second document"}},
		"tab":                  {"api:\n\taddr: 127.0.0.1:1\n", []string{":2 is not valid YAML", "indent with spaces"}},
		"open quote":           {"model:\n  name: \"abc\n", []string{"is not valid YAML"}},
		"UTF-16":               {"\xff\xfea\x00", []string{"is UTF-16", "save it as UTF-8"}},
		"Latin-1":              {"model:\n  name: \xe9\n", []string{"is not UTF-8"}},
		"zero byte":            {"model:\x00\n", []string{"zero bytes"}},
		"bad choice":           {"tools:\n  terminal: alow\n", []string{":2: tools.terminal must be one of deny, ask, ask-all, allow; did you mean allow?"}},
		"bad address":          {"api:\n  addr: localhost\n", []string{"api.addr must be HOST:PORT"}},
		"bad port":             {"api:\n  addr: localhost:99999\n", []string{"port from 0 to 65535"}},
		"bad URL":              {"model:\n  base_url: localhost:11434\n", []string{"model.base_url must be a URL"}},
		"origin with path":     {"api:\n  allowed_origins: [\"https://a/b\"]\n", []string{"api.allowed_origins must be origins"}},
		"key in the file":      {"model:\n  api_key: sk-hunter2\n", []string{"model.api_key is not a setting", "model.api_key_file"}},
		"key as its name":      {"model:\n  api_key_env: sk-hunter2\n", []string{"model.api_key_env must be the name of a variable"}},
		"password in URL":      {"model:\n  base_url: http://u:hunter2@x/v1\n", []string{"must not hold a user or password"}},
		"missing key file":     {"model:\n  api_key_file: gone\n", []string{":2: model.api_key_file", "cannot be read"}},
		"lane, name":           {"kanban:\n  lanes:\n    My Lane: {preset: agent}\n", []string{":3: kanban.lanes.\"My Lane\" must be named with"}},
		"lane, preset":         {"kanban:\n  lanes:\n    a: {preset: cloude}\n", []string{"kanban.lanes.a.preset must be one of", "did you mean claude?"}},
		"lane, nothing":        {"kanban:\n  lanes:\n    a: {}\n", []string{"kanban.lanes.a says neither preset nor argv"}},
		"lane, command":        {"kanban:\n  lanes:\n    a: {preset: command}\n", []string{"kanban.lanes.a needs an argv"}},
		"lane, agent":          {"kanban:\n  lanes:\n    a: {preset: agent, argv: [x]}\n", []string{"argv has no meaning for preset agent"}},
		"lane, one line":       {"kanban:\n  lanes:\n    a: {argv: [\"make test\"]}\n", []string{"is one word with spaces: it is never split"}},
		"lane, argv as text":   {"kanban:\n  lanes:\n    a: {argv: make test}\n", []string{"kanban.lanes.a.argv must be a list"}},
		"lane, passed on":      {"kanban:\n  lanes:\n    a: {argv: [x], env_pass: [\"A=1\"]}\n", []string{"env_pass must be the name of a variable"}},
		"two mistakes at once": {"api:\n  adr: x\nkanban:\n  interval: 1\n", []string{":2: api.adr", ":4: kanban.interval"}},
	} {
		t.Run(name, func(t *testing.T) {
			home := homeWith(t, c.yaml)
			_, err := Load(Request{Flags: map[string]string{"home": home}})
			if !problem.Is(err, problem.Config) {
				t.Fatalf("not refused as configuration: %v", err)
			}
			wantParts(t, err.Error(), c.want...)
			wantParts(t, err.Error(), filepath.Join(home, "config.yaml"))
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestALaneIsCheckedByThoseWhoStartItAtItsPlace(t *testing.T) {
	home := homeWith(t, "kanban:\n  lanes:\n    bad: {argv: [x, \"{taks}\"]}\n    worse: {preset: command}\n    good: {preset: claude}\n")
	var asked []string
	_, err := Load(Request{Flags: map[string]string{"home": home}, CheckLane: func(name string, lane Lane) error {
		asked = append(asked, name+" "+lane.Preset)
		if name == "bad" {
			return errors.New("no such placeholder {taks}")
		}
		return nil
	}})
	if err == nil || fmt.Sprint(asked) != "[bad command good claude]" {
		t.Fatalf("asked about %q: %v", asked, err)
	}
	wantParts(t, err.Error(), "config.yaml:3: kanban.lanes.bad.argv is refused: no such placeholder {taks}", ":4: kanban.lanes.worse needs an argv")
}

func TestGoodFilesAreRead(t *testing.T) {
	home := homeWith(t, "\xef\xbb\xbf# a mark of some editors stands before this\r\n"+`
model:
api:
  addr: "[::1]:0"
  allowed_hosts: [box, 10]
kanban:
  stale_timeout: 0
  lanes:
    tests:
      argv: [make, -j, 4, "{title}", '{"json": 1}']
      env: {CI: 1, DEBUG: true}
      max_runtime: 1h30m
    helper: {preset: claude}
agent:
  system_prompt: |
    two
    lines
`)
	l := load(t, home)
	lane := l.Kanban.Lanes["tests"]
	if fmt.Sprint(lane.Argv) != `[make -j 4 {title} {"json": 1}]` || lane.Env["CI"] != "1" || lane.Env["DEBUG"] != "true" {
		t.Errorf("lane: %+v", lane)
	}
	if lane.Preset != "command" || lane.KillGrace != 5*time.Second || lane.MaxRuntime != 90*time.Minute {
		t.Errorf("lane: %+v", lane)
	}
	if l.Kanban.StaleTimeout != 0 || l.API.Addr != "[::1]:0" || l.Agent.SystemPrompt != "two\nlines\n" || l.API.AllowedHosts[1] != "10" {
		t.Errorf("values: %+v", l.Config)
	}
	if got := l.Origins["kanban.lanes.tests.max_runtime"]; got.Value != "1h30m" || !strings.HasSuffix(got.Place, ":13") {
		t.Errorf("origin: %+v", got)
	}
	for _, empty := range []string{"", "\n", "# nothing\n", "---\n", "{}\n", "--- # only a mark\n{}\n"} {
		load(t, homeWith(t, empty))
	}
}

func TestAFileThatIsNoneIsRefusedAndDoesNotBlock(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"endless":   func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("# x\n", 300_000)), 0o600) },
		"loop":      func(path string) error { return os.Symlink(path, path) },
	} {
		t.Run(name, func(t *testing.T) {
			home := homeWith(t, "")
			if err := make(filepath.Join(home, "config.yaml")); err != nil {
				t.Fatal(err)
			}
			wantParts(t, refusal(t, home), filepath.Join(home, "config.yaml"), "cannot be read")
		})
	}
}

// FuzzDecode: whatever the file holds, it is read or refused with problems of kind Config, never a panic.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		Example(), "a: b: c", "api: {addr: [}", "kanban:\n  lanes:\n    a: {argv: [x, 1]}\n", "? - a\n: b\n", "&a [*a]", "!!binary x", "{", "%TAG",
		"api:\n  ? {a: b}\n  : c\n", "<<: *x\n", "'': \"\"\n", "\"\\u0000\": 1\n", "- - - a\n", "a: |\n", "kanban: {lanes: {a: ~}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := &loader{Loaded: Loaded{Origins: map[string]Origin{}, Path: "config.yaml", Config: Config{Home: "/h"}}}
		l.defaults()
		l.decode([]byte(text))
		l.validate()
		if err := errors.Join(l.problems...); err != nil && !problem.Is(err, problem.Config) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
