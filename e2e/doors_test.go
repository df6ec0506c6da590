package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatewayd/config"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
)

// playEnv makes this test binary a worker that uses one of the doors.
const playEnv = "GATEWAYD_TEST_DOOR"

// playWorker ends its card through a door and gives its exit code.
func playWorker(door string) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	switch door {
	case "cli":
		cmd := exec.Command(program, "kanban", "complete", "--summary", "through the command line")
		cmd.Env, cmd.Stderr = os.Environ(), os.Stderr
		err = cmd.Run()
	case "stdio":
		err = endBy(ctx, stdioOf(os.Args[1]), "through MCP on standard streams")
	case "http":
		err = endBy(ctx, httpAs(os.Getenv("GATEWAYD_KANBAN_MCP_URL"), os.Getenv("GATEWAYD_KANBAN_TOKEN")), "through MCP over HTTP")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, door, err)
		return 1
	}
	return 0
}

// stdioOf starts the server that a configuration names, as an agent program would: with the environment that stands there.
func stdioOf(path string) mcp.Transport {
	var file struct {
		Servers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		} `json:"mcpServers"`
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	server := file.Servers["gatewayd"]
	cmd := exec.Command(server.Command, server.Args...)
	cmd.Env, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, os.Stderr
	for key, value := range server.Env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	return &mcp.CommandTransport{Command: cmd}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func httpAs(url, token string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}
}

func endBy(ctx context.Context, transport mcp.Transport, summary string) error {
	session, err := connect(ctx, transport)
	if err != nil {
		return err
	}
	defer session.Close()
	if text, err := ask(ctx, session, "kanban_show", nil); err != nil || !strings.Contains(text, "worker_context") {
		return fmt.Errorf("show: %s %w", text, err)
	}
	_, err = ask(ctx, session, "kanban_complete", map[string]any{"summary": summary})
	return err
}

func connect(ctx context.Context, transport mcp.Transport) (*mcp.ClientSession, error) {
	return mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx, transport, nil)
}

// ask calls a tool; the words of a refusal are the error.
func ask(ctx context.Context, s *mcp.ClientSession, tool string, args map[string]any) (string, error) {
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		return text, fmt.Errorf("%s", text)
	}
	return text, nil
}

// A dispatched worker ends its card through each of the doors there are.
func TestAWorkerEndsItsCardThroughEachDoor(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lane := func(door string) string {
		return fmt.Sprintf("    %s: {preset: claude, argv: [%q, %q], env: {%s: %s, GATEWAYD_TEST_PROGRAM: %q}}\n", door, self, "{mcp_config}", playEnv, door, program)
	}
	home := newHome(t, "kanban:\n  lanes:\n"+lane("cli")+lane("stdio")+lane("http")+"    exit: {argv: [\"true\"]}\n")
	if _, errs, code := cli(t, home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	d := start(t, home)
	cards := map[string]string{}
	for _, door := range []string{"cli", "stdio", "http", "exit"} {
		var made struct{ Task card }
		d.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": door, "assignee": door}, &made)
		cards[door] = made.Task.ID
	}
	d.until("all cards are done", func() bool {
		all := d.cards("default")
		for _, id := range cards {
			if all[id].Status != "done" {
				return false
			}
		}
		return true
	})
	for door, summary := range map[string]string{"cli": "through the command line", "stdio": "through MCP on standard streams", "http": "through MCP over HTTP", "exit": ""} {
		var detail struct {
			Runs []struct{ Outcome, Summary string }
		}
		d.call(http.MethodGet, "/api/boards/default/tasks/"+cards[door], nil, &detail)
		if len(detail.Runs) != 1 || detail.Runs[0].Outcome != "completed" || summary != "" && detail.Runs[0].Summary != summary {
			t.Errorf("%s: %+v", door, detail.Runs)
		}
	}
	d.stop()
}

// claimed is a card whose run the test itself holds, and the environment that its worker would have.
type claimed struct {
	board *kanban.Board
	task  string
	run   kanban.Run
	env   []string
}

func claimCard(t *testing.T, home string) claimed {
	t.Helper()
	board, err := kanban.Open(t.Context(), kanban.Options{Path: filepath.Join(home, "kanban.db"), Slug: kanban.DefaultSlug})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = board.Close() })
	card, err := board.Create(t.Context(), kanban.NewTask{Title: "held", Assignee: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	c := claimed{board: board, task: card.ID}
	c.run = c.claim(t)
	c.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GATEWAYD_HOME=" + home, "GATEWAYD_KANBAN_HOME=" + home, "GATEWAYD_KANBAN_TASK=" + card.ID,
		fmt.Sprintf("GATEWAYD_KANBAN_RUN_ID=%d", c.run.ID), "GATEWAYD_KANBAN_BOARD=default", "GATEWAYD_KANBAN_CLAIM_LOCK=" + c.run.ClaimLock,
	}
	if mutation := os.Getenv("GATEWAYD_MUTATION"); mutation != "" {
		c.env = append(c.env, "GATEWAYD_MUTATION="+mutation)
	}
	return c
}

func (c claimed) claim(t *testing.T) kanban.Run {
	t.Helper()
	claim, err := c.board.Claim(t.Context(), c.task, kanban.Claimer{Lock: kanban.ClaimLock(), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return claim.Run
}

// supersede gives the card to another run.
func (c claimed) supersede(t *testing.T) {
	t.Helper()
	if _, err := c.board.EndRun(t.Context(), kanban.End{Task: c.task, Run: c.run.ID, Outcome: kanban.OutcomeReclaimed}); err != nil {
		t.Fatal(err)
	}
	c.claim(t)
}

func (c claimed) fence() kanban.Fence {
	return kanban.Fence{Board: kanban.DefaultSlug, Task: c.task, Run: c.run.ID, Started: c.run.StartedAt}
}

// verb runs the program as the worker.
func (c claimed) verb(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = c.env
	return cmd
}

// seen is all that a worker's writes could change.
func (c claimed) seen(t *testing.T) string {
	t.Helper()
	cards, err := c.board.List(t.Context(), kanban.Filter{Archived: true})
	if err != nil {
		t.Fatal(err)
	}
	latest, err := c.board.LatestEvent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v event %d", cards, latest)
}

// The fence is one, whatever door a superseded worker knocks at: each of its writes is refused in the same words, and
// nothing is changed.
func TestASupersededWorkerIsRefusedAtEachDoor(t *testing.T) {
	t.Parallel()
	home := newHome(t, "kanban: {dispatch: false}\n")
	if _, errs, code := cli(t, home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	d := start(t, home)
	c := claimCard(t, home)
	other, err := c.board.Create(t.Context(), kanban.NewTask{Title: "other"})
	if err != nil {
		t.Fatal(err)
	}
	streams, err := connect(t.Context(), &mcp.CommandTransport{Command: c.verb("mcp")})
	if err != nil {
		t.Fatal(err)
	}
	defer streams.Close()
	signer, err := worker.KeepSigner(home, "")
	if err != nil {
		t.Fatal(err)
	}
	overHTTP, err := connect(t.Context(), httpAs(d.base+"/mcp", signer.Token(c.fence())))
	if err != nil {
		t.Fatal(err)
	}
	defer overHTTP.Close()
	for door, s := range map[string]*mcp.ClientSession{"stdio": streams, "http": overHTTP} {
		if _, err := ask(t.Context(), s, "kanban_heartbeat", map[string]any{"note": door}); err != nil {
			t.Fatalf("%s: the current run is refused: %v", door, err)
		}
	}
	c.supersede(t)
	before := c.seen(t)

	commandLine := func(args ...string) func() error {
		return func() error {
			out, err := c.verb(append([]string{"kanban"}, args...)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s", out)
			}
			return nil
		}
	}
	tool := func(s *mcp.ClientSession, name string, args map[string]any) func() error {
		return func() error { _, err := ask(t.Context(), s, name, args); return err }
	}
	knocks := map[string]func() error{
		"cli complete":                commandLine("complete", "--summary", "late"),
		"cli block":                   commandLine("block", c.task, "late"),
		"cli heartbeat":               commandLine("heartbeat", "--note", "late"),
		"cli comment":                 commandLine("comment", c.task, "late"),
		"cli comment on another card": commandLine("comment", other.ID, "late"),
		"cli schedule":                commandLine("schedule", c.task, "late"),
		"cli request-review":          commandLine("request-review", c.task, "--summary", "late"),
		"cli request-changes":         commandLine("request-changes", c.task, "late"),
		"cli create":                  commandLine("create", "late"),
		"cli attach":                  commandLine("attach", c.task, "-", "--name", "late"),
		"cli link":                    commandLine("link", c.task, other.ID),
	}
	for verb, body := range map[string]map[string]any{
		"complete": {"summary": "late"}, "block": {"reason": "late"}, "heartbeat": {"note": "late"}, "schedule": {"reason": "late"},
		"request-review": {"summary": "late"}, "request-changes": {"reason": "late"},
	} {
		body["run_id"] = c.run.ID
		knocks["api "+verb] = func() error {
			return d.try(http.MethodPost, "/api/boards/default/tasks/"+c.task+"/"+verb, body, nil)
		}
	}
	knocks["api link"] = func() error {
		return d.try(http.MethodPost, "/api/boards/default/links", map[string]any{"parent_id": other.ID, "child_id": c.task, "run_id": c.run.ID}, nil)
	}
	for door, s := range map[string]*mcp.ClientSession{"stdio": streams, "http": overHTTP} {
		for name, args := range map[string]map[string]any{
			"kanban_complete": {"summary": "late"}, "kanban_block": {"reason": "late"}, "kanban_heartbeat": {"note": "late"}, "kanban_comment": {"body": "late"},
			"kanban_schedule": {"reason": "late"}, "kanban_request_review": {"summary": "late"}, "kanban_request_changes": {"reason": "late"},
			"kanban_attach": {"filename": "late", "content_base64": "aGk="}, "kanban_attach_url": {"url": "https://example.com/late"},
			"kanban_create": {"title": "late", "assignee": "x"}, "kanban_link": {"parent_id": c.task, "child_id": other.ID},
		} {
			knocks[door+" "+name] = tool(s, name, args)
		}
	}
	for what, knock := range knocks {
		if err := knock(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("is no longer run %d's", c.run.ID)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := c.seen(t); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
	d.stop()
}

// An environment can be inherited by anybody: the board decides whether it is true. A daemon that a worker starts takes
// nothing of it.
func TestAnInheritedRunMakesNobodyAWorker(t *testing.T) {
	home := newHome(t, "")
	if _, errs, code := cli(t, home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	c := claimCard(t, home)
	foreign := c
	foreign.env = append(append([]string{}, c.env...), "GATEWAYD_KANBAN_CLAIM_LOCK=elsewhere:1")
	dead := claimCard(t, home)
	dead.supersede(t)
	for what, w := range map[string]claimed{"another claim": foreign, "a dead run": dead} {
		for _, verb := range [][]string{{"mcp"}, {"kanban", "comment", w.task, "hello"}} {
			out, err := w.verb(verb...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "nothing was changed") || !strings.Contains(string(out), "unsets GATEWAYD_KANBAN_TASK") {
				t.Errorf("%s, %v: %v %s", what, verb, err, out)
			}
		}
	}
	if out, err := c.verb("mcp").CombinedOutput(); err != nil {
		t.Errorf("the current worker is refused: %v %s", err, out)
	}

	d := startInside(t, c)
	var list struct {
		Boards []struct {
			Path string `json:"db_path"`
		}
	}
	d.call(http.MethodGet, "/api/boards", nil, &list)
	if len(list.Boards) == 0 || !strings.HasPrefix(list.Boards[0].Path, d.home) {
		t.Errorf("a daemon inside a worker serves %+v, not its own home %s", list.Boards, d.home)
	}
}

// What a worker writes by the command line bears its lane's name and none of its secrets, and stays with its own card.
func TestAWorkersCommandLineWritesAsItsLane(t *testing.T) {
	t.Parallel()
	home := newHome(t, "")
	if _, errs, code := cli(t, home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	c, other := claimCard(t, home), claimCard(t, home)
	secret := "ghp_" + strings.Repeat("Ab3", 14)
	for _, args := range [][]string{{"comment", c.task, "use", secret}, {"create", "more", "--body", secret}, {"heartbeat", "--note", secret}} {
		if out, err := c.verb(append([]string{"kanban"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", args, out)
		}
	}
	for _, args := range [][]string{
		{"attach", other.task, "-", "--name", "x"}, {"attach-rm", "1"}, {"gc"}, {"notify", "subscribe", c.task, "--session", "x"}, {"notify", "unsubscribe", "1"},
	} {
		out, err := c.verb(append([]string{"kanban"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "worker") || !strings.Contains(string(out), "nothing was changed") {
			t.Errorf("a worker may %v: %v %s", args, err, out)
		}
	}
	shown, errs, code := cli(t, home, "kanban", "show", c.task, "--json")
	listed, _, _ := cli(t, home, "kanban", "list", "--json")
	if code != 0 || strings.Contains(shown+listed, secret) || !strings.Contains(shown, "[redacted]") || !strings.Contains(listed, "[redacted]") {
		t.Errorf("%s%s%s", shown, listed, errs)
	}
	if !strings.Contains(shown, `"author": "coder"`) || !strings.Contains(listed, `"created_by": "coder"`) {
		t.Errorf("the worker's lane does not stand as author: %s%s", shown, listed)
	}
}

// startInside starts a daemon of its own from inside a worker.
func startInside(t *testing.T, c claimed) *daemon {
	t.Helper()
	d := &daemon{t: t, home: newHome(t, ""), log: &bytes.Buffer{}}
	env := append([]string{"GATEWAYD_KEEPER=run-x", "GATEWAYD_KANBAN_TOKEN=run.x.y", "HERMES_KANBAN_TASK=" + c.task}, c.env...)
	env = slices.DeleteFunc(env, func(word string) bool { return strings.HasPrefix(word, "GATEWAYD_MUTATION=") }) // no setting of a daemon
	child, err := reaper.StartChild([]string{program, "--home", d.home, "--addr", "127.0.0.1:0"}, env, d.home, d.log, d.log)
	if err != nil {
		t.Fatal(err)
	}
	d.child = child
	t.Cleanup(func() { _ = child.Signal(syscall.SIGKILL); _, _, _ = child.Wait() })
	d.until("the daemon has announced itself", func() bool {
		holder, held, err := config.HolderOf(d.home)
		key, keyErr := config.ReadAPIKey(d.home)
		d.base, d.key = "http://"+holder.Addr, key.Reveal()
		return err == nil && keyErr == nil && held && holder.Addr != "" && d.try(http.MethodGet, "/health", nil, nil) == nil
	})
	return d
}
