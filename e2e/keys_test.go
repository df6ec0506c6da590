package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// made is a request that shows a key of its own.
func (d *daemon) made(method, path, key, body string) *http.Request {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.base+path, strings.NewReader(body))
	noError(d.t, err)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// keyed sends one.
func (d *daemon) keyed(method, path, key, body string) *http.Response {
	d.t.Helper()
	answer, err := http.DefaultClient.Do(d.made(method, path, key, body))
	noError(d.t, err)
	return answer
}

// refusedWith is the code with which a request of a key is refused, or "" and the status of its success.
func (d *daemon) refusedWith(method, path, key, body string) string {
	d.t.Helper()
	answer := d.keyed(method, path, key, body)
	defer answer.Body.Close()
	var envelope struct {
		Error struct{ Code, Message string }
	}
	raw, err := io.ReadAll(answer.Body)
	noError(d.t, err)
	_ = json.Unmarshal(raw, &envelope)
	if envelope.Error.Code == "insufficient_scope" {
		return envelope.Error.Code + ": " + envelope.Error.Message
	}
	return envelope.Error.Code
}

// verb runs a verb that must succeed and gives what it prints.
func (d *daemon) verb(args ...string) string {
	d.t.Helper()
	out, errs, code := cli(d.t, d.home, args...)
	if code != 0 {
		d.t.Fatalf("%v: exit code %d: %s", args, code, errs)
	}
	return out
}

// addsKey makes a key by the command line. Its text stands alone on the output.
func (d *daemon) addsKey(name string, flags ...string) string {
	d.t.Helper()
	token := strings.TrimSuffix(d.verb(append([]string{"keys", "add", name}, flags...)...), "\n")
	if strings.ContainsAny(token, " \n") || len(token) < 20 {
		d.t.Fatalf("keys add prints %q", token)
	}
	return token
}

// ends waits until a stream has come to its end.
func ends(t *testing.T, what string, body io.ReadCloser) {
	t.Helper()
	over := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, body); close(over) }()
	late := time.NewTimer(10 * time.Second) // a second is promised
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
		t.Fatalf("%s goes on", what)
	}
	_ = body.Close()
}

// A key is made, listed, given another text and removed by the command line beside a daemon that runs, and each counts from the next request on.
// What a removed key has open ends: its streams and its turns.
func TestKeysOfTheCommandLineCountAtOnceInTheDaemon(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, allowTerminal))
	d.call(http.MethodPost, "/api/boards", map[string]string{"slug": "plans"}, nil)
	scopes := []string{"read", "chat", "boards", "admin"}
	tokens := map[string]string{}
	for _, scope := range scopes {
		tokens[scope] = d.addsKey("for-"+scope, "--scope", scope)
	}
	listed := d.verb("keys", "list") + d.verb("keys", "list", "--json")
	for _, scope := range scopes {
		if !strings.Contains(listed, "for-"+scope) || strings.Contains(listed, tokens[scope]) {
			t.Errorf("the list lacks %s, or has its text: %s", scope, listed)
		}
	}

	for _, c := range []struct {
		method, path, body string
		may                []string // scopes
		names              string   // the scope that a refusal names
	}{
		{"GET", "/api/sessions", "", scopes, ""},
		{"GET", "/api/boards/plans", "", scopes, ""},
		{"POST", "/api/sessions", `{"id":"s"}`, []string{"chat", "admin"}, "chat"},
		{"POST", "/v1/chat/completions", `{"model":"gatewayd","messages":[{"role":"user","content":"hello"}]}`, []string{"chat", "admin"}, "chat"},
		{"POST", "/api/boards/plans/tasks", `{"title":"a card"}`, []string{"boards", "admin"}, "boards"},
		{"GET", "/api/keys", "", []string{"admin"}, "admin"},
		{"POST", "/api/config/reload", "", []string{"admin"}, "admin"},
	} {
		for _, scope := range scopes {
			got := d.refusedWith(c.method, c.path, tokens[scope], c.body)
			if slices.Contains(c.may, scope) {
				if got != "" {
					t.Errorf("%s %s with %s is refused: %s", c.method, c.path, scope, got)
				}
			} else if !strings.HasPrefix(got, "insufficient_scope: ") || !strings.Contains(got, c.names) || !strings.Contains(got, "for-"+scope) {
				t.Errorf("%s %s with %s: %q does not name the key and the scope %s", c.method, c.path, scope, got, c.names)
			}
		}
	}

	turn := make(chan struct{})
	file := filepath.Join(t.TempDir(), "runs")
	ask := fmt.Sprintf(`{"model":"gatewayd","messages":[{"role":"user","content":"$ touch %s; exec sleep 1000"}]}`, file)
	go func() {
		defer close(turn)
		if answer, err := http.DefaultClient.Do(d.made("POST", "/v1/chat/completions", tokens["chat"], ask)); err == nil {
			_ = answer.Body.Close()
		}
	}()
	d.until("the turn of the key runs", func() bool { _, err := os.Stat(file); return err == nil })
	streams := map[string]*http.Response{}
	for _, path := range []string{"/api/sessions/s/events", "/api/boards/plans/events"} {
		streams[path] = d.keyed("GET", path, tokens["chat"], "")
		if streams[path].StatusCode != http.StatusOK {
			t.Fatal(path, streams[path].Status)
		}
	}
	d.verb("keys", "remove", "for-chat")
	if got := d.refusedWith("GET", "/v1/models", tokens["chat"], ""); got != "invalid_api_key" {
		t.Errorf("a removed key is answered %q", got)
	}
	for path, stream := range streams {
		ends(t, "the stream "+path+" of a removed key", stream.Body)
	}
	select {
	case <-turn: // its client hears an end, whichever
	case <-time.After(patience):
		t.Error("the turn of a removed key goes on")
	}
	d.nothingRuns()

	watching := d.keyed("GET", "/api/boards/plans/events", tokens["boards"], "")
	again := strings.TrimSpace(d.verb("keys", "rotate", "for-boards"))
	if old, now := d.refusedWith("GET", "/v1/models", tokens["boards"], ""), d.refusedWith("GET", "/v1/models", again, ""); old != "invalid_api_key" || now != "" {
		t.Errorf("after rotate the old text is answered %q, the new one %q", old, now)
	}
	ends(t, "a stream of the old text", watching.Body)
	tokens["chat again"], tokens["boards again"] = d.addsKey("for-chat", "--scope", "chat"), again
	if got := d.refusedWith("GET", "/v1/models", tokens["chat"], ""); got != "invalid_api_key" {
		t.Errorf("the old text of a name that was made anew is answered %q", got)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"add", "for-read", "--scope", "read"}, 1, "exists already"},
		{[]string{"add", "x"}, 1, "needs a scope"},
		{[]string{"add", "x", "--scope", "god"}, 1, "god"},
		{[]string{"remove", "nobody"}, 1, "nobody"},
		{[]string{"rotate", "nobody"}, 1, "keys list"},
	} {
		if _, errs, code := cli(t, d.home, append([]string{"keys"}, c.args...)...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("keys %v: exit code %d, %s", c.args, code, errs)
		}
	}
	d.stop()
	nowhere(t, d, tokens)
}

// nowhere looks for the texts of keys in all that is below a home, and in what its daemon logged.
func nowhere(t *testing.T, d *daemon, tokens map[string]string) {
	t.Helper()
	files := 0
	noError(t, filepath.WalkDir(d.home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		files++
		for name, token := range tokens {
			if bytes.Contains(raw, []byte(token)) {
				t.Errorf("the text of key %s is in %s", name, path)
			}
		}
		return err
	}))
	for name, token := range tokens {
		if bytes.Contains(d.log.Bytes(), []byte(token)) {
			t.Errorf("the text of key %s is in the log", name)
		}
	}
	if _, err := os.Stat(filepath.Join(d.home, "keys.json")); err != nil || files < 4 {
		t.Errorf("%d files were looked at: %v", files, err)
	}
}

// The socket is the command line's door: it asks for no key, so the copy in the clear may go, and the key itself too; the address lets nobody in without
// one.
func TestTheCommandLineNeedsNoKeyWhereItsSocketIs(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, "model: {provider: offline}\n"))
	info, err := os.Stat(filepath.Join(d.home, "api.sock"))
	noError(t, err)
	if info.Mode().Perm() != 0o600 || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("api.sock is %v", info.Mode())
	}
	tryAll := func(when string) {
		t.Helper()
		for _, args := range [][]string{{"status"}, {"chat", "hello"}, {"approvals", "list"}, {"config", "reload"}, {"health"}} {
			if _, errs, code := cli(t, d.home, args...); code != 0 {
				t.Errorf("%s, %v: exit code %d: %s", when, args, code, errs)
			}
		}
	}
	tryAll("at first")
	noError(t, os.Remove(filepath.Join(d.home, "api.key")))
	tryAll("without api.key")
	d.verb("keys", "remove", "first")
	tryAll("without any key")
	if got := d.refusedWith("GET", "/v1/models", "", ""); got != "invalid_api_key" {
		t.Errorf("the address lets somebody in without a key: %q", got)
	}
	if got := d.refusedWith("GET", "/v1/models", d.key, ""); got != "invalid_api_key" {
		t.Errorf("the removed first key is answered %q", got)
	}
	noError(t, os.Remove(filepath.Join(d.home, "api.sock")))
	if _, errs, code := cli(t, d.home, "chat", "hello"); code == 0 || !strings.Contains(errs, "key") {
		t.Errorf("without socket and key: exit code %d: %s", code, errs)
	}
	d.stop()
}

// A key of the command line reaches a daemon elsewhere by its address, and its keys by the API; what is made while no daemon runs counts when one does.
func TestKeysAreMadeWhereTheDaemonIsElsewhereAndWhereItRests(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, "model: {provider: offline}\n"))
	addr := strings.TrimPrefix(d.base, "http://")
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" {
		t.Fatal(addr, err)
	}
	far := strings.TrimSpace(d.verb("--addr", addr, "keys", "add", "far", "--scope", "chat", "--expires", "1h"))
	if got := d.refusedWith("GET", "/v1/models", far, ""); got != "" {
		t.Errorf("a key that was made by the address is answered %q", got)
	}
	if out := d.verb("--addr", addr, "keys", "list", "--json"); !strings.Contains(out, `"far"`) || strings.Contains(out, far) {
		t.Errorf("%s", out)
	}
	d.verb("--addr", addr, "keys", "remove", "far")
	if got := d.refusedWith("GET", "/v1/models", far, ""); got != "invalid_api_key" {
		t.Errorf("a removed key is answered %q", got)
	}
	d.stop()
	resting := d.addsKey("resting", "--scope", "read")
	d = start(t, d.home)
	if got := d.refusedWith("GET", "/v1/models", resting, ""); got != "" {
		t.Errorf("a key that was made while the daemon was stopped is answered %q", got)
	}
	d.stop()
	nowhere(t, d, map[string]string{"far": far, "resting": resting})
}
