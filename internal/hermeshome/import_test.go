package hermeshome

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatewayd/config"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

const hermesConfig = `
model:
  provider: openrouter
  default: some/model
  context_length: 128000
agent: {max_turns: 42, restart_drain_timeout: 900, reasoning_effort: extreme}
terminal: {backend: docker, cwd: /work, timeout: 90}
approvals: {mode: "off", timeout: 30}
compression: {threshold: 0.6, protect_last_n: 12, of_a_fork: 1}
command_allowlist: ["git push *"]
display: {streaming: true}
kanban: {dispatch_in_gateway: false, dispatch_interval_seconds: 20, auto_decompose: true, max_in_progress: null}
fallback_providers:
  - {provider: local, model: small}
providers:
  local: {base_url: "http://127.0.0.1:11434/v1", models: {small: {context_length: 9}}}
mcp_servers:
  files: {command: npx, args: [-y, server], env: {FILES_TOKEN: sk-literal-secret, HOMEDIR: /h}, timeout: 60}
  tracker: {url: "https://tracker.example.org/mcp", headers: {Authorization: "Bearer ${TRACKER_TOKEN}"}, tools: {exclude: [delete]}}
`

const hermesEnv = "# keys\nOPENROUTER_API_KEY=sk-or-secret\nexport TRACKER_TOKEN='tr$cker \"secret\"'\nTELEGRAM_BOT_TOKEN=tg-secret\nHERMES_KANBAN_BUSY_TIMEOUT_MS=5\nEDITOR=vi\nnonsense\n"

// hermesDir is a made-up home of Hermes, with real databases where they are there.
func hermesDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml": hermesConfig, ".env": hermesEnv, "SOUL.md": "you are", "memories/a.md": "x", "auth.json": "{}", "something.else": "?",
		"profiles/coder/config.yaml": "", "kanban/current": "side\n", "kanban/boards/side/board.json": `{"slug": "side", "name": "Side"}`,
		"kanban/boards/default/board.json": `{"slug": "default", "name": "All"}`, "kanban/boards/_archived/old-1700000000/kanban.db": "", "kanban/logs/t_00000001.log": "log\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	for name, from := range map[string]string{"state.db": "state_0170.db", "kanban.db": "kanban_0170.db", "kanban/boards/side/kanban.db": "kanban_0140.db", "kanban/boards/broken/kanban.db": "kanban_0170_tls.db"} {
		if fixtures := os.Getenv("GATEWAYD_FIXTURES"); fixtures != "" {
			text, err := os.ReadFile(filepath.Join(fixtures, from))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, name), string(text))
		}
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, home string) config.Loaded {
	t.Helper()
	loaded, err := config.Load(config.Request{Flags: map[string]string{"home": home}})
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// bring imports as the verb does.
func bring(t *testing.T, dir, home string, dry bool) *Report {
	t.Helper()
	report, err := Import(t.Context(), Options{Dir: dir, Home: load(t, home), DryRun: dry, Conversations: func(ctx context.Context, dir string) (sessiondb.Moved, error) {
		if dry {
			return sessiondb.ImportHermes(ctx, nil, sessiondb.HermesOptions{Path: dir, DryRun: true})
		}
		s, err := sessiondb.Open(ctx, sessiondb.Options{Path: filepath.Join(home, "state.db")})
		if err != nil {
			return sessiondb.Moved{}, err
		}
		got, err := sessiondb.ImportHermes(ctx, s, sessiondb.HermesOptions{Path: dir})
		return got, errors.Join(err, s.Close())
	}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func (r *Report) item(t *testing.T, kind, name string) Item {
	t.Helper()
	i := slices.IndexFunc(r.Items, func(i Item) bool { return i.Kind == kind && i.Name == name })
	if i < 0 {
		t.Errorf("%s %s is not in the report", kind, name)
		return Item{}
	}
	return r.Items[i]
}

func TestEverythingThatIsFoundIsAccountedForOnce(t *testing.T) {
	dir, home := hermesDir(t), t.TempDir()
	report := bring(t, dir, home, false)
	seen := map[string]bool{}
	for _, i := range report.Items {
		if seen[i.Kind+i.Name] || i.Outcome == "" {
			t.Errorf("twice, or without an outcome: %+v", i)
		}
		seen[i.Kind+i.Name] = true
	}
	for what, want := range map[string]Outcome{
		"setting model.default": Imported, "setting model.provider": Imported, "setting agent.max_turns": Imported, "setting agent.restart_drain_timeout": Skipped,
		"setting agent.reasoning_effort": Refused, "setting approvals.mode": Refused, "setting terminal.backend": Skipped, "setting terminal.timeout": Imported,
		"setting compression.threshold": Imported, "setting compression.of_a_fork": Skipped, "setting kanban.dispatch_interval_seconds": Imported,
		"setting fallback_providers": Imported, "setting providers.local.base_url": Imported, "setting mcp_servers.files": Imported, "setting mcp_servers.tracker": Imported,
		"key OPENROUTER_API_KEY": Imported, "setting model.provider's key OPENROUTER_API_KEY": Imported, "key TRACKER_TOKEN": Imported, "key TELEGRAM_BOT_TOKEN": Skipped, "key EDITOR": Skipped, "key HERMES_KANBAN_BUSY_TIMEOUT_MS": Skipped,
		"file SOUL.md": Skipped, "file something.else": Skipped, "profile coder": Skipped, "file kanban/boards/_archived": Skipped,
	} {
		kind, name, _ := strings.Cut(what, " ")
		if i := report.item(t, kind, name); i.Outcome != want {
			t.Errorf("%s: %s (%s), want %s", what, i.Outcome, i.Reason, want)
		}
	}
	if os.Getenv("GATEWAYD_FIXTURES") != "" {
		if report.item(t, "board", "default").Outcome != Imported || report.item(t, "board", "side").Outcome != Imported || report.item(t, "board", "broken").Outcome != Failed || report.State != Broken {
			t.Errorf("%+v", report.Items)
		}
		if n := len(report.Conversations.Sessions); n != 40 {
			t.Errorf("%d sessions", n)
		}
	}
	checkHome(t, home, report)
}

// checkHome: the new home starts with what was brought, and no secret is where it can be read.
func checkHome(t *testing.T, home string, report *Report) {
	t.Helper()
	l := load(t, home)
	if l.Model.BaseURL != "https://openrouter.ai/api/v1" || l.Model.Name != "some/model" || l.Model.APIKey.Reveal() != "sk-or-secret" || l.Kanban.Interval.Seconds() != 20 || l.Kanban.Dispatch || len(l.Model.Fallbacks) != 1 {
		t.Errorf("the settings are %+v", l.Config)
	}
	if l.MCPServers["tracker"].Filled.Headers["Authorization"].Reveal() != `Bearer tr$cker "secret"` || l.MCPServers["files"].Filled.Env["FILES_TOKEN"].Reveal() != "sk-literal-secret" {
		t.Error("a server has lost its secret")
	}
	saved, err := os.ReadFile(report.File)
	if err != nil || !strings.Contains(string(saved), `"state": "`+report.State+`"`) {
		t.Errorf("the report on disk: %v", err)
	}
	settings, _ := os.ReadFile(filepath.Join(home, "config.yaml"))
	if text := string(saved) + string(settings); strings.Contains(text, "secret\"") || strings.Contains(text, "-secret") {
		t.Errorf("a secret is told:\n%s", text)
	}
	if info, err := os.Stat(filepath.Join(home, ".env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf(".env: %v, %v", info, err)
	}
}

func TestImportingAgainBringsNothingTwiceAndOverwritesNothing(t *testing.T) {
	dir, home := hermesDir(t), t.TempDir()
	bring(t, dir, home, false)
	before := footprint(t, home, "imports", "state.db")
	again := bring(t, dir, home, false)
	if again.Totals[Imported] != 0 {
		t.Errorf("again: %v", again.Totals)
	}
	if after := footprint(t, home, "imports", "state.db"); !slices.Equal(after, before) {
		t.Errorf("it was\n%s\nand is\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

func TestSettingsOfOnesOwnAreLeftAndTheOthersProposed(t *testing.T) {
	dir, home := hermesDir(t), t.TempDir()
	const mine = "model: {name: mine} # and my comment\n"
	write(t, filepath.Join(home, "config.yaml"), mine)
	write(t, filepath.Join(home, ".env"), "OPENROUTER_API_KEY=my-own\nMINE=1")
	report := bring(t, dir, home, false)
	if text, _ := os.ReadFile(filepath.Join(home, "config.yaml")); string(text) != mine {
		t.Errorf("config.yaml is\n%s", text)
	}
	if i := report.item(t, "setting", "model.default"); i.Outcome != Skipped || !strings.HasSuffix(i.To, "config.from-hermes.yaml") {
		t.Errorf("%+v", i)
	}
	if i := report.item(t, "key", "OPENROUTER_API_KEY"); i.Outcome != Skipped {
		t.Errorf("%+v", i)
	}
	if l := load(t, home); l.Model.Name != "mine" || l.Environ.Get("OPENROUTER_API_KEY") != "my-own" || l.Environ.Get("MINE") != "1" || l.Environ.Get("TRACKER_TOKEN") == "" {
		t.Errorf("%+v", l.Config)
	}
	bring(t, dir, home, false)
	if made, _ := filepath.Glob(filepath.Join(home, "config.from-hermes*")); len(made) != 1 {
		t.Errorf("proposals: %v", made)
	}
}

func TestADryRunWritesNothingAnywhere(t *testing.T) {
	dir, home := hermesDir(t), filepath.Join(t.TempDir(), "home")
	for range 2 {
		before := [][]string{footprint(t, dir), footprint(t, filepath.Dir(home))}
		report := bring(t, dir, home, true)
		if report.Totals[Imported] < 2 || report.File != "" {
			t.Errorf("%+v", report.Totals)
		}
		after := [][]string{footprint(t, dir), footprint(t, filepath.Dir(home))}
		if fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("it was\n%v\nand is\n%v", before, after)
		}
		write(t, filepath.Join(home, "config.yaml"), "log: {level: debug}\n") // and beside a home that is there
	}
}

func TestWhatWasNotReachedIsAFailureAndNeverSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := Import(ctx, Options{Dir: hermesDir(t), Home: load(t, t.TempDir()), Conversations: func(context.Context, string) (sessiondb.Moved, error) { return sessiondb.Moved{}, nil }})
	if !errors.Is(err, context.Canceled) || report.State != Broken {
		t.Fatalf("%v, %+v", err, report)
	}
	if i := report.item(t, "file", "config.yaml"); i.Outcome != Failed || !strings.Contains(i.Reason, "was not reached") {
		t.Errorf("%+v", i)
	}
}

// footprint is what lies below a directory, down to inodes, times and bytes, but for what is named.
func footprint(t *testing.T, dir string, but ...string) (out []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		name := strings.TrimPrefix(path, dir)
		if err != nil || slices.ContainsFunc(but, func(b string) bool { return strings.HasPrefix(name, "/"+b) }) || info.IsDir() && len(but) > 0 {
			return err
		}
		line := fmt.Sprint(name, " ", info.Mode(), info.ModTime().UnixNano(), " ", sqlite.TakeFingerprint(path))
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", text[:min(len(text), 64)]) + fmt.Sprint(len(text))
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
