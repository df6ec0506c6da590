package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatewayd/config"
	"gatewayd/kanban"
)

// standIns are the programs of the presets. This test binary plays each of them when it is started by its name.
var standIns = []string{"claude", "codex", "gemini", "opencode", "hermes"}

// sight is what a program was started with.
type sight struct {
	Argv, Env   []string
	Dir, Stdin  string
	Descriptors []string // those that were there when it began
}

// playStandIn writes down what this process was started with, in the directory where it works.
func playStandIn() int {
	s := sight{Argv: os.Args, Env: os.Environ()}
	for fd := range 256 {
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err == nil && !ownRuntimes(link) {
			s.Descriptors = append(s.Descriptors, fmt.Sprintf("%d", fd))
			if fd > 2 {
				s.Descriptors = append(s.Descriptors, link)
			}
		}
	}
	s.Dir, _ = os.Getwd()
	s.Stdin, _ = os.Readlink("/proc/self/fd/0")
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile("sight.json", text, 0o600)
	}
	if err != nil {
		return 1
	}
	return 0
}

// ownRuntimes are descriptors that the runtime of a Go program opens for itself before main: its poller, and the bound of its
// cgroup that it reads again and again.
func ownRuntimes(link string) bool {
	return strings.HasPrefix(link, "anon_inode:[event") || strings.HasPrefix(link, "/sys/fs/cgroup/")
}

// daemonEnv is a daemon's environment with everything that must and must not reach a worker.
func daemonEnv(path string) config.Environ {
	return config.Environ{
		"PATH=" + path, "HOME=/h", "LANG=de_DE.UTF-8", "SECRET=s", "AWS_SECRET_ACCESS_KEY=s", "GATEWAYD_MODEL_API_KEY=s", "LD_PRELOAD=", "PWD=/x",
		"ANTHROPIC_API_KEY=a", "CODEX_HOME=/c", "OPENAI_API_KEY=o", "GEMINI_API_KEY=g", "OPENCODE_CONFIG=/oc", "HERMES_HOME=/hh",
		"HERMES_KANBAN_TASK=t_other", "GATEWAYD_KANBAN_TASK=t_other", "GATEWAYD_KANBAN_TOKEN=run.other", "GATEWAYD_KEEPER=other",
	}
}

// Each preset's program gets exactly these words, this environment, its workspace, no input and no descriptor but its three.
func TestEachPresetStartsItsProgramWithExactlyThis(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	for _, name := range standIns {
		if err := os.Symlink(self, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, preset := range standIns {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			lane, _ := lanesOf(t, map[string]config.Lane{"coder": {Preset: preset}}).Lookup("coder")
			l := newLocal(t)
			l.Environ, l.Signer, l.MCPURL = daemonEnv(path), NewSigner("secret"), "http://127.0.0.1:1/mcp"
			job := jobOn(t, lane)
			job.RunsDir, job.Workspace, job.LogPath, job.Root, job.Card.GoalMode, job.Card.Skills, job.Card.Model = l.RunsDir, t.TempDir(), filepath.Join(t.TempDir(), "log"), "/r", false, nil, ""
			run, err := l.Launch(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			if exit := waitExit(t, run); exit.Code != 0 {
				t.Fatalf("%+v %s", exit, run.Output())
			}
			text, err := os.ReadFile(filepath.Join(job.Workspace, "sight.json"))
			if err != nil {
				t.Fatal(err)
			}
			var got sight
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			checkSight(t, got, wantSight(job, l, run.ID()))
		})
	}
}

func checkSight(t *testing.T, got, want sight) {
	t.Helper()
	slices.Sort(got.Env)
	slices.Sort(want.Env)
	for what, pair := range map[string][2]any{
		"argv": {got.Argv, want.Argv}, "environment": {got.Env, want.Env}, "directory": {got.Dir, want.Dir}, "stdin": {got.Stdin, want.Stdin},
		"descriptors": {got.Descriptors, want.Descriptors},
	} {
		if g, w := fmt.Sprintf("%q", pair[0]), fmt.Sprintf("%q", pair[1]); g != w {
			t.Errorf("%s:\ngot  %s\nwant %s", what, g, w)
		}
	}
}

func wantSight(job Job, l *Local, keeper string) sight {
	dir := filepath.Join(l.RunsDir, keeper)
	card, servers := filepath.Join(dir, "card.md"), filepath.Join(dir, "mcp.json")
	brief := "You work on one kanban card without a person beside you. Read the file " + card + " first: it holds the card and says how to end it."
	token := l.Signer.Token(kanban.Fence{Board: "default", Task: "t_1", Run: 7, Started: job.RunStarted})
	ours := []string{
		"GATEWAYD_HOME=/h", "GATEWAYD_KANBAN_HOME=/r", "GATEWAYD_KANBAN_TASK=t_1", "GATEWAYD_KANBAN_RUN_ID=7", "GATEWAYD_KANBAN_BOARD=default",
		"GATEWAYD_KANBAN_DB=/r/kanban.db", "GATEWAYD_KANBAN_WORKSPACE=" + job.Workspace, "GATEWAYD_KANBAN_CLAIM_LOCK=host:1",
	}
	var names []string
	env := map[string]string{}
	for _, word := range ours {
		key, value, _ := strings.Cut(word, "=")
		names, env[key] = append(names, key), value
	}
	quoted := func(v any) string { text, _ := json.Marshal(v); return string(text) }
	argv := map[string][]string{
		"claude": {
			"claude", "-p", "--permission-mode=acceptEdits", "--mcp-config=" + servers, "--strict-mcp-config",
			"--allowedTools=mcp__gatewayd,Bash(/bin/gatewayd kanban:*)", "--add-dir=" + dir, "--", brief,
		},
		"codex": {
			"codex", "exec", "-c", `mcp_servers.gatewayd.command="/bin/gatewayd"`, "-c", `mcp_servers.gatewayd.args=["mcp","--home","/h"]`,
			"-c", "mcp_servers.gatewayd.env_vars=" + quoted(names), "-c", `mcp_servers.gatewayd.default_tools_approval_mode="approve"`,
			"--skip-git-repo-check", "--sandbox=workspace-write", "--add-dir=/r", "--", brief,
		},
		"gemini": {
			"gemini", "--approval-mode=auto_edit", "--allowed-mcp-server-names=gatewayd", "--allowed-tools=run_shell_command(/bin/gatewayd)",
			"--include-directories=" + dir, "--prompt=" + brief,
		},
		"opencode": {"opencode", "run", "--", brief},
		"hermes":   {"hermes", "-p", "coder", "--cli", "--accept-hooks", "chat", "-q", "work kanban task t_1"},
	}
	hermes := []string{
		"HERMES_HOME=/hh", "HERMES_PROFILE=coder", "HERMES_KANBAN_HOME=/r", "HERMES_KANBAN_TASK=t_1", "HERMES_KANBAN_RUN_ID=7", "HERMES_KANBAN_BOARD=default",
		"HERMES_KANBAN_DB=/r/kanban.db", "HERMES_KANBAN_WORKSPACE=" + job.Workspace, "HERMES_KANBAN_WORKSPACES_ROOT=" + job.WorkspacesRoot,
		"HERMES_KANBAN_CLAIM_LOCK=host:1", "HERMES_SESSION_SOURCE=kanban", "HERMES_TENANT=acme", "TERMINAL_CWD=" + job.Workspace,
	}
	server := map[string]any{"type": "local", "command": []string{"/bin/gatewayd", "mcp", "--home", "/h"}, "environment": env, "enabled": true}
	own := map[string][]string{
		"claude": {"ANTHROPIC_API_KEY=a"}, "codex": {"OPENAI_API_KEY=o", "CODEX_HOME=/c"}, "hermes": hermes,
		"gemini": {"GEMINI_API_KEY=g", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH=" + servers},
		"opencode": {
			"OPENCODE_CONFIG=/oc", "ANTHROPIC_API_KEY=a", "OPENAI_API_KEY=o",
			"OPENCODE_CONFIG_CONTENT=" + quoted(map[string]any{"mcp": map[string]any{"gatewayd": server}}),
		},
	}
	rest := []string{
		"PATH=" + l.Environ.Get("PATH"), "HOME=/h", "LANG=de_DE.UTF-8", "TERM=dumb", "GATEWAYD_TASK_FILE=" + card, "GATEWAYD_EXE=/bin/gatewayd",
		"GATEWAYD_KANBAN_TOKEN=" + token, "GATEWAYD_KANBAN_MCP_URL=http://127.0.0.1:1/mcp", "GATEWAYD_KEEPER=" + keeper,
	}
	return sight{
		Argv: argv[job.Lane.Preset], Env: slices.Concat(ours, rest, own[job.Lane.Preset]), Dir: job.Workspace, Stdin: "/dev/null", Descriptors: []string{"0", "1", "2"},
	}
}

// The file of servers is the run's own, in the words of the program that reads it, and holds no secret.
func TestTheMCPConfigurationNamesOurServerAndTheRun(t *testing.T) {
	for preset, at := range map[string]string{"claude": "mcpServers", "gemini": "mcpServers", "opencode": "mcp", "command": "mcpServers"} {
		lane, _ := lanesOf(t, map[string]config.Lane{"x": {Preset: preset, Argv: []string{"true", "{mcp_config}"}}}).Lookup("x")
		job := jobOn(t, lane)
		job.Token = "run.secret"
		l, err := job.writeFiles()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(l.mcp)
		if err != nil {
			t.Fatal(err)
		}
		var file map[string]map[string]map[string]any
		if err := json.Unmarshal(text, &file); err != nil || file[at]["gatewayd"]["command"] == nil {
			t.Errorf("%s: %v %s", preset, err, text)
		}
		if info, err := os.Stat(l.mcp); err != nil || info.Mode() != 0o600 || strings.Contains(string(text), "run.secret") || !strings.Contains(string(text), `"GATEWAYD_KANBAN_RUN_ID":"7"`) {
			t.Errorf("%s: %v %v %s", preset, err, info.Mode(), text)
		}
		if argv, err := job.argv(l); err != nil || argv[1] != l.mcp {
			t.Errorf("%s: %q %v", preset, argv, err)
		}
	}
}

func TestATokenProvesItsRunAndNothingElse(t *testing.T) {
	s, f := NewSigner("secret"), kanban.Fence{Board: "web", Task: "t_1/2", Run: 7, Started: 1700000000}
	token := s.Token(f)
	if got, err := s.Fence(token); err != nil || got != f {
		t.Errorf("%+v %v", got, err)
	}
	other := s.Token(kanban.Fence{Board: "web", Task: "t_1/2", Run: 8, Started: 1700000000})
	claim, _, _ := strings.Cut(strings.TrimPrefix(other, tokenPrefix), ".")
	_, mark, _ := strings.Cut(strings.TrimPrefix(token, tokenPrefix), ".")
	for what, forged := range map[string]string{
		"of another home": NewSigner("other").Token(f), "with another claim": tokenPrefix + claim + "." + mark, "without a mark": tokenPrefix + claim + ".",
		"empty": "", "a key": "secret", "cut": token[:len(token)-1],
	} {
		if got, err := s.Fence(forged); err == nil {
			t.Errorf("a token %s is taken for %+v", what, got)
		}
	}
	if (Signer{}).Token(f) != "" {
		t.Error("a signer without a secret signs")
	}
	if _, err := (Signer{}).Fence(token); err == nil {
		t.Error("a signer without a secret accepts")
	}
}
