package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A daemon is killed after a receiver has an event and before it could write that down. The next one sends the event
// again under the same key, and tells the chat session that made the card exactly once.
func TestNotificationsOfAKilledDaemonArriveUnderTheirKey(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 20)
	var hold atomic.Bool
	hold.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var m struct {
			Key   string
			Event struct{ Kind string }
		}
		if err := json.Unmarshal(raw, &m); err != nil || r.Header.Get("webhook-id") != m.Key || r.Header.Get("webhook-signature") == "" {
			t.Errorf("%v: %s", r.Header, raw)
		}
		keys <- m.Event.Kind + " " + m.Key
		if hold.Load() {
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	home := newHome(t, "model: {provider: offline}\nkanban:\n  dispatch: false\n  notify:\n    allow_private: true\n    webhooks:\n      ops: {url: "+
		server.URL+"/hook, secret_file: ops.secret}\n")
	if err := os.WriteFile(filepath.Join(home, "ops.secret"), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, home)
	d.call(http.MethodPost, "/api/boards", map[string]any{"slug": "plans"}, nil)
	if err := d.say("chat", "hello", nil); err != nil {
		t.Fatal(err)
	}
	var made struct{ Task struct{ ID string } }
	d.call(http.MethodPost, "/api/boards/plans/tasks", map[string]any{"title": "paint the door", "session_id": "chat"}, &made)
	if _, stderr, code := cli(t, home, "kanban", "--board", "plans", "notify", "subscribe", "--webhook", "none"); code == 0 || !strings.Contains(stderr, "use one of ops") {
		t.Errorf("a webhook that nobody configured: %d %s", code, stderr)
	}
	if stdout, stderr, code := cli(t, home, "kanban", "--board", "plans", "notify", "subscribe", "--webhook", "ops"); code != 0 || !strings.Contains(stdout, "the whole board") {
		t.Fatalf("subscribe: %d %s%s", code, stdout, stderr)
	}
	if _, stderr, code := cli(t, home, "kanban", "--board", "plans", "block", made.Task.ID, "which colour?"); code != 0 {
		t.Fatal(stderr)
	}
	sent := arrives(t, keys)
	d.until("the session is told", func() bool { return strings.Contains(said(d.rows("chat")), "which colour?") })
	if err := d.child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.end()
	hold.Store(false)

	d = start(t, home)
	if again := arrives(t, keys); again != sent || !strings.HasPrefix(sent, "blocked gwn_") {
		t.Errorf("sent %q, then %q", sent, again)
	}
	path := "/api/boards/plans/"
	d.until("all is delivered", func() bool {
		var list struct{ Outbox []struct{ State string } }
		d.call(http.MethodGet, path+"outbox", nil, &list)
		return len(list.Outbox) == 2 && list.Outbox[0].State == "delivered" && list.Outbox[1].State == "delivered"
	})
	if n := strings.Count(said(d.rows("chat")), "which colour?"); n != 1 {
		t.Errorf("the session was told %d times", n)
	}
	var list struct {
		Subscriptions []struct {
			ID      int64
			Address string
		}
	}
	d.call(http.MethodGet, path+"subscriptions", nil, &list)
	for _, s := range list.Subscriptions {
		if s.Address != "ops" {
			continue
		}
		id, _ := json.Marshal(s.ID)
		if stdout, stderr, code := cli(t, home, "kanban", "--board", "plans", "notify", "test", string(id)); code != 0 || stdout != "delivered\n" {
			t.Errorf("test: %d %s%s", code, stdout, stderr)
		}
		d.call(http.MethodPost, path+"subscriptions/"+string(id)+"/retry", nil, nil)
		d.call(http.MethodDelete, path+"subscriptions/"+string(id), nil, nil)
	}
	if got := arrives(t, keys); !strings.HasPrefix(got, "test gwt_") || len(list.Subscriptions) != 2 {
		t.Errorf("%q of %+v", got, list)
	}
	if c := d.check("notifier"); c != "ok" {
		t.Errorf("notifier is %s", c)
	}
	d.stop()
}

func arrives(t *testing.T, keys chan string) string {
	t.Helper()
	select {
	case key := <-keys:
		return key
	case <-time.After(patience):
		t.Fatal("nothing arrives")
	}
	return ""
}

func said(rows []row) string {
	var all strings.Builder
	for _, r := range rows {
		if r.Role != "assistant" { // the offline model repeats what it hears
			all.WriteString(r.Content + "\n")
		}
	}
	return all.String()
}
