package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatewayd/config"
)

func lanesOf(t *testing.T, defined map[string]config.Lane) *Lanes {
	t.Helper()
	lanes, err := NewLanes(config.Kanban{Lanes: defined}, "MY_KEY")
	if err != nil {
		t.Fatal(err)
	}
	return lanes
}

func jobOn(t *testing.T, lane Lane) Job {
	t.Helper()
	return Job{
		Board: "default", DB: "/r/kanban.db", Root: "/r", Home: "/h", Exe: "/bin/gatewayd", RunsDir: t.TempDir(), Run: 7, RunStarted: 1,
		Lock: "host:1", Lane: lane, Workspace: "/w",
		Card: Card{ID: "t_1", Title: "-rf $(boom)", Body: "--help; $(boom)", Tenant: "acme", GoalMode: true, Skills: []string{"-x"}, Model: "m"},
	}
}

func TestEveryPresetKeepsTheCardsWordsOutOfItsArgv(t *testing.T) {
	for name := range presets() {
		if name == "command" {
			continue
		}
		lane, _ := lanesOf(t, map[string]config.Lane{"x": {Preset: name}}).Lookup("X ")
		job := jobOn(t, lane)
		argv, err := job.argv(job.layout())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, w := range argv {
			if strings.Contains(w, "boom") {
				t.Errorf("%s: the card's own words stand in %q", name, w)
			}
		}
		if lane.Ending != ByWorker {
			t.Errorf("%s: exit 0 would complete the card", name)
		}
	}
}

func TestHermesFlagsAreBoundToTheirValues(t *testing.T) {
	lane, _ := lanesOf(t, map[string]config.Lane{"coder": {Preset: "hermes"}}).Lookup("coder")
	job := jobOn(t, lane)
	argv, err := job.argv(job.layout())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"hermes", "-p", "coder", "--cli", "--accept-hooks", "--skills=-x", "--model=m", "chat", "-q", "work kanban task t_1"}
	if !slices.Equal(argv, want) {
		t.Fatalf("got %q", argv)
	}
	env := config.Environ(environment(nil, lane, runEnv(job, job.layout())))
	for key, want := range map[string]string{
		"HERMES_KANBAN_TASK": "t_1", "HERMES_KANBAN_RUN_ID": "7", "HERMES_KANBAN_CLAIM_LOCK": "host:1", "HERMES_KANBAN_DB": "/r/kanban.db",
		"HERMES_TENANT": "acme", "HERMES_KANBAN_GOAL_MODE": "1", "TERMINAL_CWD": "/w",
	} {
		if got := env.Get(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
}

func TestEnvironmentIsAnAllowList(t *testing.T) {
	lane, _ := lanesOf(t, map[string]config.Lane{"x": {Argv: []string{"true"}, Env: map[string]string{"A": "1"}, EnvPass: []string{"WANTED", "GATEWAYD_KANBAN_TASK"}}}).Lookup("x")
	daemon := config.Environ{"SECRET_TOKEN=s", "GATEWAYD_MODEL_API_KEY=k", "MY_KEY=k", "WANTED=w", "PATH=/p", "LANG=de", "GATEWAYD_KANBAN_TASK=t_other", "GATEWAYD_KEEPER=k"}
	job := jobOn(t, lane)
	env := config.Environ(environment(daemon, lane, runEnv(job, job.layout())))
	for _, key := range []string{"SECRET_TOKEN", "GATEWAYD_MODEL_API_KEY", "MY_KEY", "GATEWAYD_KEEPER"} {
		if _, ok := env.Lookup(key); ok {
			t.Errorf("%s reached the worker", key)
		}
	}
	for key, want := range map[string]string{"WANTED": "w", "A": "1", "PATH": "/p", "LANG": "de", "GATEWAYD_KANBAN_TASK": "t_1", "GATEWAYD_KANBAN_RUN_ID": "7", "TERM": "dumb"} {
		if got := env.Get(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	seen := map[string]bool{}
	for _, w := range env {
		key, _, _ := strings.Cut(w, "=")
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
	}
}

func TestAgentLaneSeesTheModelsKey(t *testing.T) {
	lane, ok := lanesOf(t, nil).Lookup(DefaultLane)
	if !ok || !lane.NeedsModel {
		t.Fatal("there is no agent lane by default")
	}
	env := config.Environ(environment(config.Environ{"MY_KEY=k"}, lane, nil))
	if env.Get("MY_KEY") != "k" {
		t.Fatal("the agent lane cannot reach its model")
	}
}

func TestLaneMistakesAreNamed(t *testing.T) {
	_, err := NewLanes(config.Kanban{Lanes: map[string]config.Lane{
		"a": {Preset: "clod"}, "b": {Preset: "command"}, "c": {Argv: []string{"x"}, Env: map[string]string{"GATEWAYD_KANBAN_TASK": "t"}},
		"d": {Argv: []string{"sh", "-c", "{title}"}},
	}}, "")
	for _, want := range []string{"lane a: preset", "lane b: argv is empty", "lane c: env: GATEWAYD_KANBAN_TASK", "lane d: argv[2]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func TestNearestLane(t *testing.T) {
	lanes := lanesOf(t, map[string]config.Lane{"coder": {Preset: "claude"}, "writer": {Preset: "codex"}})
	for given, want := range map[string]string{"codre": "coder", "Coder": "coder", "writter": "writer", "zzz": ""} {
		if got := lanes.Nearest(given); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestMissingProgram(t *testing.T) {
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	if err := os.WriteFile(notes, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	lanes := lanesOf(t, map[string]config.Lane{
		"gone": {Argv: []string{"no-such-program-here"}}, "there": {Argv: []string{"sh"}}, "abs": {Argv: []string{"/no/such"}}, "rel": {Argv: []string{"./run"}},
		"notes": {Argv: []string{notes}}, "notes-on-path": {Argv: []string{"notes"}}, "dir": {Argv: []string{dir}},
	})
	for name, want := range map[string]struct{ program, what, remedy string }{
		"gone": {"no-such-program-here", "is not there", "PATH"}, "abs": {"/no/such", "is not there", "install /no/such"},
		"notes": {notes, "is not executable", "`chmod +x " + notes + "`"}, "notes-on-path": {notes, "is not executable", "`chmod +x " + notes + "`"},
		"dir": {dir, "is not a file", "kanban.lanes.dir.argv"}, "there": {}, "rel": {}, "agent": {},
	} {
		lane, _ := lanes.Lookup(name)
		got := lane.MissingProgram(config.Environ{"PATH=" + dir + ":/usr/bin:/bin"})
		if got != want.program {
			t.Errorf("%s: missing %q, want %q", name, got, want.program)
		}
		if got == "" {
			continue
		}
		if what, remedy := lane.MissingWhat(got), lane.MissingRemedy(got); what != want.what || !strings.Contains(remedy, want.remedy) {
			t.Errorf("%s: %q, %q", name, what, remedy)
		}
	}
}
