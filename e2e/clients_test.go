package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatewayd/internal/fakellm"
)

// installed is where the clients of testdata/clients are, each at its pinned version: installed once for all tests, and kept from one
// run of the tests to the next.
var installed = sync.OnceValues(func() (string, error) {
	versions, err := os.ReadFile("testdata/clients/package.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(versions)
	dir := filepath.Join(cache, "gatewayd-tests", "clients-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir, nil
	}
	return dir, install(dir, versions)
})

// install makes the directory beside its place, so that it is there whole or not at all.
func install(dir string, versions []byte) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	making, err := os.MkdirTemp(filepath.Dir(dir), "making-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(making)
	if err := os.WriteFile(filepath.Join(making, "package.json"), versions, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "install", "--prefix", making, "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(making, "complete"), nil, 0o600); err != nil {
		return err
	}
	if err := os.Rename(making, dir); err != nil {
		if _, there := os.Stat(filepath.Join(dir, "complete")); there != nil { // nobody else was quicker
			return err
		}
	}
	return nil
}

// runs runs a client's program against a daemon and compares what it tells.
func (d *daemon) runs(script, want string) {
	d.t.Helper()
	dir, err := installed()
	if err != nil {
		d.t.Skipf("SKIPPED: the npm packages could not be installed, so real clients were not tried: %v", err)
	}
	source, err := os.ReadFile(filepath.Join("testdata/clients", script))
	if err != nil {
		d.t.Fatal(err)
	}
	program := filepath.Join(d.t.TempDir(), script)
	if err := os.WriteFile(program, source, 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "node_modules"), filepath.Join(filepath.Dir(program), "node_modules")); err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "--preserve-symlinks-main", program, d.base, d.key)
	node.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "AI_SDK_LOG_WARNINGS=false")
	var errs bytes.Buffer
	node.Stderr = &errs
	out, err := node.Output()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s%s", script, err, out, errs.String())
	}
	var got, expected any
	if err := json.Unmarshal(out, &got); err != nil {
		d.t.Fatalf("%s: %v: %s", script, err, out)
	}
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		d.t.Fatal(err)
	}
	have, _ := json.Marshal(got)
	wanted, _ := json.Marshal(expected)
	if !bytes.Equal(have, wanted) {
		d.t.Errorf("%s\ngot  %s\nwant %s", script, have, wanted)
	}
}

// needsNode skips a test aloud where no client can be run.
func needsNode(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %s is not installed, so real clients were not tried: %v", program, err)
		}
	}
}

// clientModel is a model that answers by what a person says, and counts.
type clientModel struct {
	mu      sync.Mutex
	count   map[string]int
	strange atomic.Bool // it was offered a tool of the client
}

func (a *clientModel) answer(r fakellm.Request) fakellm.Response {
	body := r.JSON()
	raw, _ := json.Marshal(body["tools"])
	if strings.Contains(string(raw), `"weather"`) {
		a.strange.Store(true)
	}
	text, tool := lastSaid(body)
	a.mu.Lock()
	a.count[text]++
	a.mu.Unlock()
	switch {
	case text == "stream":
		return fakellm.Text{Text: "bit by bit by bit", Delay: 20 * time.Millisecond}
	case text == "work" && !tool:
		return fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "true"}, Text: "Looking."}
	case text == "work":
		return fakellm.Text{Text: "Found."}
	case strings.HasPrefix(text, "fail"):
		return fakellm.Error{Status: http.StatusUnauthorized, Message: "no such key"}
	case text == "abort":
		return fakellm.StallMidStream{Text: "this never ends", After: 1}
	}
	return fakellm.Text{Text: text + ", human"}
}

func (a *clientModel) times(text string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count[text]
}

// lastSaid is what was said last, and whether a tool has answered since.
func lastSaid(body map[string]any) (text string, tool bool) {
	list, _ := body["messages"].([]any)
	for i := len(list) - 1; i >= 0; i-- {
		m, _ := list[i].(map[string]any)
		switch m["role"] {
		case "tool":
			tool = true
		case "user":
			text, _ = m["content"].(string)
			return text, tool
		}
	}
	return "", tool
}

func newClientScene(t *testing.T) (*scene, *clientModel) {
	t.Helper()
	needsNode(t)
	model := &clientModel{count: map[string]int{}}
	k := forever()
	k.retries = 0
	return newScene(t, k, model.answer), model
}

// The npm package that most programs use: whole and streamed answers, tools that are not the agent's, responses that
// are stored and chained, errors as its own classes, each stored message sent once, and an answer that is aborted is stopped.
func TestTheOpenAIPackageIsAnswered(t *testing.T) {
	t.Parallel()
	w, model := newClientScene(t)
	w.runs("openai.mjs", `{"models":["gatewayd"],"whole":["hello, human","stop",15],"streamed":"bit by bit by bit","streamUsage":15,"inPieces":true,
"toolsIgnored":["tools, human",null],"helper":"Looking.\n\nFound.","responses":["completed","hello, human","hello again, human","hello again, human"],
"responseStream":"bit by bit by bit","responseEnd":"completed","rising":true,
"badKey":["AuthenticationError",401,"invalid_api_key"],"badRequest":["BadRequestError",400,"invalid_value"],
"failed":["InternalServerError",502,"agent_incomplete"],"failedStream":["InternalServerError",502,"agent_incomplete"],"aborted":"this nev"}`)
	for text, want := range map[string]int{"fail": 1, "fail stream": 1} {
		if n := model.times(text); n != want {
			t.Errorf("%q was asked %d times, want %d", text, n, want)
		}
	}
	if model.strange.Load() {
		t.Error("the model was offered the client's tool")
	}
	w.nothingRuns()
	w.stop()
}

// The AI SDK with its provider for compatible servers.
func TestTheAISDKIsAnswered(t *testing.T) {
	t.Parallel()
	w, model := newClientScene(t)
	w.runs("ai.mjs", `{"whole":["hello, human","stop",15],"streamed":"bit by bit by bit","inPieces":true,"streamUsage":15,
"failed":[502,true,true],"failedStream":true,"aborted":"this nev","abortSeen":true}`)
	if n := model.times("fail"); n != 1 {
		t.Errorf("a failure was asked %d times", n)
	}
	w.nothingRuns()
	w.stop()
}

// MCP over streamable HTTP: the protocol's own client in JavaScript, and the one in Go.
func TestMCPClientsReachTheBoard(t *testing.T) {
	w := newScene(t, hasty(), script(fakellm.Text{Text: "x"}))
	w.call(http.MethodPost, "/api/boards", map[string]string{"slug": "default"}, nil)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.base + "/mcp", HTTPClient: &http.Client{Transport: withKey(w.key)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "kanban_create", Arguments: map[string]any{"title": "from Go", "assignee": "nobody"}})
	if err != nil || made.IsError {
		t.Errorf("%+v %v", made, err)
	}
	_ = session.Close()
	if n := len(w.cards("default")); n != 1 {
		t.Errorf("%d cards", n)
	}
	needsNode(t)
	w.runs("mcp.mjs", `{"create":true,"made":[false,true],"badKey":"refused"}`)
	w.stop()
}

// withKey adds a key to each request.
type withKey string

func (b withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// nothingRuns waits until no turn runs.
func (d *daemon) nothingRuns() {
	d.t.Helper()
	d.until("nothing runs", func() bool {
		var status struct {
			Gateway struct{ Running []struct{} }
		}
		d.call(http.MethodGet, "/api/status", nil, &status)
		return len(status.Gateway.Running) == 0
	})
}
