package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/internal/mutation"
	"gatewayd/internal/vigil"
)

// wired is how a verb is tried. $HOME and the like stand for places of the ground.
type wired struct {
	args   []string
	writes []string // what it may touch beside its home: it was told to, or that is what it is for
	skip   string   // why it is not run here
	follow bool     // it ends when it is told to
	apart  bool     // it makes homes of its own, and is tried where there is none: TestAVerbWithHomesOfItsOwnWritesNowhereElse
}

// tripwires has a row for each verb. Several of one verb are separated by a number behind its path.
var tripwires = map[string]wired{
	"approvals": {}, "approvals approve": {args: []string{"a_1"}}, "approvals deny": {args: []string{"a_1"}}, "approvals grants": {}, "approvals list": {},
	"approvals revoke": {args: []string{"rule"}}, "approvals rules": {},
	"backup": {}, "backup list": {}, "chat": {args: []string{"hello"}},
	"completion": {}, "completion bash": {}, "completion fish": {}, "completion powershell": {}, "completion zsh": {},
	"config": {}, "config check": {}, "config reload": {}, "config show": {},
	"database": {}, "database set-journal-mode": {args: []string{"delete", "board", "demo"}},
	"demo":   {apart: true},
	"doctor": {}, "health": {}, "help": {}, "import": {}, "import hermes": {args: []string{"$USER/.hermes"}}, "init": {}, "insights": {},
	"install": {args: []string{"--dry-run"}}, "uninstall": {},
	"keys": {}, "keys add": {args: []string{"me", "--scope", "read"}}, "keys list": {}, "keys rotate": {args: []string{"me"}}, "keys remove": {args: []string{"me"}},
	"logs": {}, "manual": {args: []string{"$OUT/manual"}, writes: []string{"$OUT"}}, "mcp": {}, "repair": {}, "repair board": {args: []string{"demo"}}, "repair state": {}, "restore": {args: []string{"$HOME/no-backup"}},
	"selftest role": {skip: "only selftest starts it, and it is traced with that"},
	"selftest":      {apart: true, args: []string{"--chaos", "--episode", "kill_writer", "--dir", "$OUT"}},
	"sessions":      {}, "sessions list": {}, "sessions search": {args: []string{"hello"}}, "sessions verify": {}, "sessions prune": {}, "sessions salvage": {},
	"sessions export": {args: []string{"--all", "--output", "$OUT/sessions.json"}, writes: []string{"$OUT"}}, "sessions import": {args: []string{"$OUT/sessions.json"}},
	"sessions show": {args: []string{"$SESSION"}}, "sessions prefix": {args: []string{"$SESSION"}}, "sessions rename": {args: []string{"$SESSION", "new"}},
	"sessions rewind": {args: []string{"$SESSION"}}, "sessions end": {args: []string{"$SESSION"}}, "sessions reopen": {args: []string{"$SESSION"}}, "sessions fork": {args: []string{"$SESSION"}},
	"sessions archive": {args: []string{"$SESSION"}}, "sessions unarchive": {args: []string{"$SESSION"}}, "sessions pin": {args: []string{"$SESSION"}},
	"sessions unpin": {args: []string{"$SESSION"}}, "sessions delete": {args: []string{"s_none"}},
	"status": {}, "version": {}, "why": {args: []string{"$CARD"}}, "worker": {skip: "only a dispatcher starts it, for a card: TestAWorkerWritesNowhereButInItsHome"},
	"kanban": {}, "kanban assignees": {}, "kanban boards": {}, "kanban boards list": {}, "kanban boards show": {args: []string{"demo"}},
	"kanban boards create": {args: []string{"other"}}, "kanban boards switch": {args: []string{"demo"}}, "kanban boards rename": {args: []string{"demo", "Demo"}},
	"kanban boards set-default-workdir": {args: []string{"demo"}}, "kanban boards set-max-in-progress": {args: []string{"demo", "2"}},
	"kanban boards export":  {args: []string{"demo", "$OUT/demo.tar.gz"}, writes: []string{"$OUT"}},
	"kanban boards import":  {args: []string{"$OUT/demo.tar.gz", "--slug", "again"}},
	"kanban boards archive": {args: []string{"other"}}, "kanban boards restore": {args: []string{"other"}}, "kanban boards rm": {args: []string{"other"}},
	"kanban create": {args: []string{"a card"}}, "kanban attach": {args: []string{"$CARD", "$USER/note.txt"}},
	"kanban attach-get": {args: []string{"1"}}, "kanban attach-rm": {args: []string{"1"}},
	"kanban link": {args: []string{"$CARD", "$CARD"}}, "kanban unlink": {args: []string{"$CARD", "$CARD"}}, "kanban move": {args: []string{"$CARD", "ready"}},
	"kanban notify": {}, "kanban notify list": {}, "kanban notify retry": {args: []string{"1"}}, "kanban notify test": {args: []string{"1"}},
	"kanban notify subscribe": {args: []string{"$CARD", "--session", "$SESSION"}}, "kanban notify unsubscribe": {args: []string{"1"}},
	"kanban notify-list": {}, "kanban notify-subscribe": {args: []string{"$CARD", "--session", "$SESSION"}}, "kanban notify-unsubscribe": {args: []string{"1"}},
	"kanban heartbeat": {args: []string{"$CARD", "--run", "1"}},
	"kanban terminate": {args: []string{"1"}}, "kanban tail": {args: []string{"$CARD"}, follow: true}, "kanban watch": {follow: true},
	"kanban diagnostics": {}, "kanban dispatch": {}, "kanban drain": {}, "kanban events": {}, "kanban gc": {}, "kanban list": {}, "kanban pause": {args: []string{"so"}},
	"kanban resume": {}, "kanban stats": {}, "kanban timers": {}, "kanban edit": {args: []string{"$CARD", "--title", "new"}},
	"kanban assign": {args: []string{"$CARD", "lane"}}, "kanban reassign": {args: []string{"$CARD", "lane"}}, "kanban comment": {args: []string{"$CARD", "words"}},
	"kanban block": {args: []string{"$CARD", "why"}}, "kanban request-changes": {args: []string{"$CARD", "why"}}, "kanban set-model": {args: []string{"$CARD", "m"}},
}

// onCard are the verbs of a board to which a card is enough.
var onCard = strings.Fields("archive attachments authorize-existing-pr claim complete context decompose delete log promote purge reclaim reopen-review request-review runs schedule show specify unblock")

// last are the verbs after which there is nothing left to try the others on.
var last = []string{"kanban archive", "kanban delete", "kanban purge", "kanban boards rm", "restore", "uninstall"}

// alone are the verbs that do something only when no daemon runs; they are tried beside one and without.
var alone = []string{"init", "backup", "import hermes", "database set-journal-mode", "repair state", "repair board", "restore", "kanban gc", "insights", "doctor", "uninstall"}

// ground is where a verb is tried: a home A, and beside it everything that is none of its business.
type ground struct {
	t                              *testing.T
	base, home, user, cwd, tmp     string
	out, trace, card, session, bin string
	env                            []string
}

func newGround(t *testing.T) *ground {
	t.Helper()
	bin, err := exec.LookPath("gatewayd")
	need(t, err)
	base, err := filepath.EvalSymlinks(t.TempDir())
	need(t, err)
	g := &ground{t: t, base: base, bin: bin, home: base + "/A", user: base + "/user", cwd: base + "/cwd", tmp: base + "/tmp", out: base + "/out", trace: base + "/trace"}
	for _, dir := range []string{g.home, g.user + "/.gatewayd", g.user + "/.hermes", g.user + "/.config", g.user + "/.cache", g.cwd, g.tmp, g.out, g.trace} {
		need(t, os.MkdirAll(dir, 0o700))
	}
	for _, name := range []string{".gatewayd/config.yaml", ".gatewayd/state.db", ".gatewayd/kanban.db", ".gatewayd/api.key", ".hermes/state.db", ".hermes/kanban.db", ".hermes/config.yaml", "note.txt"} {
		need(t, os.WriteFile(filepath.Join(g.user, name), []byte("# a sentinel: "+name+"\n"), 0o600))
	}
	for _, name := range []string{g.cwd + "/config.yaml", g.cwd + "/kanban.db", g.tmp + "/sentinel"} {
		need(t, os.WriteFile(name, []byte("# a sentinel\n"), 0o600))
	}
	g.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.user, "TMPDIR=" + g.tmp, "USER=me", "LANG=C"}
	if name := os.Getenv(mutation.Variable); name != "" {
		g.env = append(g.env, mutation.Variable+"="+name)
	}
	return g
}

// serve starts the daemon with the offline model.
func (g *ground) serve() (base string, stop func()) {
	return g.serveWith("model: {provider: offline}\n")
}

// serveWith starts the daemon; stop ends it and waits for that.
func (g *ground) serveWith(settings string) (base string, stop func()) {
	g.t.Helper()
	need(g.t, os.WriteFile(g.home+"/config.yaml", []byte(settings), 0o600))
	ctx, cancel := context.WithTimeout(g.t.Context(), 5*time.Minute)
	cmd := g.command(ctx, "daemon", []string{"--addr", "127.0.0.1:0"})
	need(g.t, cmd.Start())
	base, pid := g.ready(ctx)
	return base, sync.OnceFunc(func() {
		defer cancel()
		_ = syscall.Kill(pid, syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// fill makes something to work on.
func (g *ground) fill() {
	g.t.Helper()
	g.must("kanban", "boards", "create", "demo")
	g.must("kanban", "boards", "switch", "demo")
	g.must("chat", "hello")
	var made struct{ ID string }
	need(g.t, json.Unmarshal(g.must("kanban", "create", "a card", "--json"), &made))
	var listed struct{ Sessions []struct{ ID string } }
	need(g.t, json.Unmarshal(g.must("sessions", "list", "--json"), &listed))
	g.card, g.session = made.ID, listed.Sessions[0].ID
	if g.card == "" || g.session == "" {
		g.t.Fatalf("card %q, conversation %q: what was made has no name", g.card, g.session)
	}
}

func (g *ground) must(args ...string) []byte {
	g.t.Helper()
	out, said, code := g.run(args, false)
	if code != 0 {
		g.t.Fatalf("%v: exit code %d: %s", args, code, said)
	}
	return out
}

// run runs the program under strace, when there is one.
func (g *ground) run(args []string, follow bool) (out []byte, said string, code int) {
	g.t.Helper()
	limit := 60 * time.Second
	if follow {
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), limit)
	defer cancel()
	cmd := g.command(ctx, "verb", args)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // where the tracer had to be killed, what it traced goes on
	if err != nil && ctx.Err() != nil && !follow {
		g.t.Errorf("%v did not end: %s", args, &stderr)
	}
	return stdout.Bytes(), stderr.String(), cmd.ProcessState.ExitCode()
}

func (g *ground) command(ctx context.Context, log string, args []string) *exec.Cmd {
	argv := append([]string{g.bin, "--home", g.home}, args...)
	if tracer, err := exec.LookPath("strace"); err == nil {
		argv = append([]string{tracer, "-f", "-qq", "-y", "--seccomp-bpf", "-e", "trace=" + traced, "-o", g.trace + "/" + log}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = g.cwd, g.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // strace alone would wait for what it traces
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (g *ground) fillIn(words []string) []string {
	replace := strings.NewReplacer("$HOME", g.home, "$USER", g.user, "$OUT", g.out, "$CARD", g.card, "$SESSION", g.session)
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = replace.Replace(w)
	}
	return out
}

// outside is everything beside the home, with the moment at which it was last changed.
func (g *ground) outside() string {
	var out strings.Builder
	for _, dir := range []string{g.user, g.cwd, g.tmp} {
		out.WriteString(contents(g.t, dir))
		need(g.t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil {
				fmt.Fprintln(&out, path, info.ModTime().UnixNano())
			}
			return err
		}))
	}
	return out.String()
}

// stray gives what was written, or tried to be, in a place that is none of these.
func (g *ground) stray(log string, allowed []string) []string {
	return g.beyond(g.written(log), append(allowed, "$HOME"))
}

// written is each path that a trace tells of, once.
func (g *ground) written(log string) []string {
	raw, err := os.ReadFile(g.trace + "/" + log)
	if err != nil {
		return nil // there is no strace
	}
	need(g.t, os.Remove(g.trace+"/"+log))
	return writtenPaths(string(raw), g.cwd)
}

// beyond are the paths that lie below none of these.
func (g *ground) beyond(paths, allowed []string) []string {
	allowed = append(g.fillIn(allowed), "/dev/null", "/dev/tty", "/proc")
	return slices.DeleteFunc(paths, func(path string) bool {
		return slices.ContainsFunc(allowed, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
	})
}

// everyVerb is each command of the program by its path, those that only have others below them included.
func everyVerb(cmd *cobra.Command) (list []string) {
	for _, c := range cmd.Commands() {
		list = append(list, strings.TrimPrefix(c.CommandPath(), "gatewayd "))
		list = append(list, everyVerb(c)...)
	}
	return list
}

func TestNoVerbWritesOutsideItsHome(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Log("SKIPPED in part: strace is not installed, so only the directories that are listed afterwards are looked at")
	}
	for _, verb := range onCard {
		tripwires["kanban "+verb] = wired{args: []string{"$CARD"}}
	}
	g := newGround(t)
	before := g.outside()
	_, stop := g.serve()
	t.Cleanup(stop)
	g.fill()
	list := everyVerb((&cli{}).root())
	slices.SortStableFunc(list, func(a, b string) int { return slices.Index(last, a) - slices.Index(last, b) })
	for _, verb := range list {
		g.trip(verb, before)
	}
	stop()
	for _, verb := range alone {
		g.trip(verb, before)
	}
	if stray := g.stray("daemon", nil); len(stray) > 0 {
		t.Errorf("the daemon writes outside its home: %v", stray)
	}
}

// trip runs a verb and looks at what it wrote.
func (g *ground) trip(verb, before string) {
	g.t.Helper()
	row, known := tripwires[verb]
	switch {
	case !known:
		g.t.Errorf("%s has no row among the tripwires: say with which arguments it is tried, and what it may write beside its home", verb)
		return
	case row.skip != "" || row.apart:
		g.t.Logf("%s is not run here %s", verb, row.skip)
		return
	}
	_, said, code := g.run(append(strings.Fields(verb), g.fillIn(row.args)...), row.follow)
	if code == exitUsage {
		g.t.Errorf("%s %v was not understood: %s", verb, row.args, said)
	}
	if stray := g.stray("verb", row.writes); len(stray) > 0 {
		g.t.Errorf("%s writes outside its home: %v", verb, stray)
	}
	if after := g.outside(); after != before {
		g.t.Fatalf("%s changed what is none of its business\nbefore:\n%s\nafter:\n%s", verb, before, after)
	}
}

func TestNoRequestWritesOutsideTheHome(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	before := g.outside()
	base, stop := g.serve()
	t.Cleanup(stop)
	g.fill()
	answered, asked := g.askEverything(t.Context(), base)
	stop()
	if answered < 40 || answered*3 < asked {
		t.Errorf("only %d of %d requests were answered with success, so little was tried", answered, asked)
	}
	if stray := g.stray("daemon", nil); len(stray) > 0 {
		t.Errorf("the daemon writes outside its home: %v", stray)
	}
	if after := g.outside(); after != before {
		t.Errorf("a request changed what is none of the home's business\nbefore:\n%s\nafter:\n%s", before, after)
	}
}

// ready waits until the daemon says where it listens.
func (g *ground) ready(ctx context.Context) (base string, pid int) {
	is := vigil.Until(time.Minute, ctx.Done(), func() bool {
		holder, held, err := config.HolderOf(g.home)
		base, pid = "http://"+holder.Addr, holder.PID
		return err == nil && held && holder.Addr != ""
	})
	if !is {
		g.t.Fatal("the daemon is not ready")
	}
	return base, pid
}

// bodies are what requests carry that need more than an empty object.
var bodies = map[string]string{
	"POST /v1/chat/completions": `{"model":"x","messages":[{"role":"user","content":"hi"}]}`, "POST /v1/responses": `{"model":"x","input":"hi"}`,
	"POST /v1/runs": `{"input":"hi"}`, "POST /api/sessions/{session}/chat": `{"input":"hi"}`, "POST /api/boards": `{"slug":"more"}`,
	"POST /api/boards/{board}/tasks": `{"title":"another"}`, "POST /api/keys": `{"name":"k","scopes":["read"]}`, "PATCH /api/boards/{board}": `{"name":"D"}`,
	"PATCH /api/sessions/{session}": `{"title":"T"}`, "PATCH /api/boards/{board}/tasks/{task}": `{"title":"T"}`, "POST /api/boards/{board}/tasks/{task}/comments": `{"body":"words"}`,
}

// askEverything sends each request that the daemon describes, those that delete last.
func (g *ground) askEverything(ctx context.Context, base string) (answered, asked int) {
	key, err := config.ReadAPIKey(g.home)
	need(g.t, err)
	var described struct {
		Paths map[string]map[string]json.RawMessage
	}
	get, err := http.Get(base + "/openapi.json")
	need(g.t, err)
	need(g.t, json.NewDecoder(get.Body).Decode(&described))
	need(g.t, get.Body.Close())
	var requests []string
	for path, methods := range described.Paths {
		for method := range methods {
			if m := strings.ToUpper(method); slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, m) {
				requests = append(requests, m+" "+path)
			}
		}
	}
	order := func(r string) int { return strings.Count(r, "DELETE ")*2 + strings.Count(r, "/archive") }
	slices.SortFunc(requests, func(a, b string) int { return cmp.Or(order(a)-order(b), strings.Compare(a, b)) })
	places := strings.NewReplacer("{board}", "demo", "{task}", g.card, "{session}", g.session, "{model}", "offline", "{key}", "k", "{attachment}", "1", "{run}", "1", "{subscription}", "1")
	for _, r := range requests {
		method, path, _ := strings.Cut(r, " ")
		asked++
		if g.ask(ctx, method, base+places.Replace(path), bodies[r], key.Reveal()) < 400 {
			answered++
		}
	}
	return answered, asked
}

// ask sends one request and gives its status. A stream is left when it has begun.
func (g *ground) ask(ctx context.Context, method, url, body, key string) int {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(cmp.Or(body, "{}")))
	need(g.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Logf("%s %s: %v", method, url, err)
		return http.StatusInternalServerError
	}
	_ = got.Body.Close()
	return got.StatusCode
}
