package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/sqlite"
)

// under sends a body under an Idempotency-Key. A daemon that ended before it answered gives 0.
func (d *daemon) under(key, path string, body any) (status int, answer string, replayed bool) {
	raw, err := json.Marshal(body)
	if err != nil {
		d.t.Error(err)
		return 0, "", false
	}
	req, err := http.NewRequest(http.MethodPost, d.base+path, bytes.NewReader(raw))
	if err != nil {
		d.t.Error(err)
		return 0, "", false
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + d.key, "Content-Type": "application/json", "Idempotency-Key": key} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", false
	}
	return resp.StatusCode, string(text), resp.Header.Get("Idempotency-Replayed") == "true"
}

// between is where a daemon is stopped: what stands in its store by then, and what does not yet.
type between struct{ there, missing string }

// holdAt takes the store's write lock again and again until it has it at such a moment, which it then keeps: the daemon stands still
// between two commits. false: the moment passed, because the daemon was quicker.
func holdAt(t *testing.T, path string, at between) (held bool, letGo func()) {
	t.Helper()
	c, err := sqlite.OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	letGo = func() { _ = c.Close() }
	if err := c.BusyTimeout(0); err != nil { // whoever sleeps in between is late
		t.Fatal(err)
	}
	late := time.Now().Add(patience)
	for time.Now().Before(late) {
		if err := c.Exec("BEGIN IMMEDIATE"); errors.Is(err, sqlite3.BUSY) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		switch there, missing := finds(t, c, at.there), !finds(t, c, at.missing); {
		case there && missing:
			return true, letGo
		case there:
			_ = c.Exec("ROLLBACK")
			return false, letGo
		}
		if err := c.Exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("not within %v: %s", patience, at.there)
	return false, letGo
}

func finds(t *testing.T, c *sqlite3.Conn, sql string) bool {
	t.Helper()
	s, _, err := c.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Step()
}

// A run with a history is asked for under a key, and its daemon is killed between two of the commits that this takes. The next one, asked
// the same under the same key, refuses nothing: there is one run, its history is said once, and the model is asked once.
func TestARunThatAKillCutOffWhileItWasBegunIsBegunAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, forever(), func(fakellm.Request) fakellm.Response { return fakellm.Text{Text: "answered"} })
	never := between{`SELECT 1 FROM runs WHERE session_id = '?'`, `SELECT 1 FROM inbox WHERE session_id = '?' UNION ALL SELECT 1 FROM messages WHERE session_id = '?' AND content = 'and now?'`}
	for try := range 20 {
		if s.cutWhileBegun(fmt.Sprintf("never%d", try), never) {
			t.Fatal("a run was there without its message")
		}
	}
	for name, at := range map[string]between{
		"told":     {`SELECT 1 FROM sessions WHERE id = '?'`, `SELECT 1 FROM runs WHERE session_id = '?'`},
		"accepted": {`SELECT 1 FROM inbox WHERE session_id = '?' UNION ALL SELECT 1 FROM messages WHERE session_id = '?' AND content = 'and now?'`, `SELECT 1 FROM idempotency WHERE key = '?' AND status IS NOT NULL`},
	} {
		hit := false
		for try := 0; try < 40 && !hit; try++ {
			hit = s.cutWhileBegun(name+strings.Repeat("x", try), at)
		}
		if !hit {
			t.Errorf("%s: the daemon was quicker each time, so this is NOT shown", name)
		}
	}
	s.stop()
}

// cutWhileBegun kills the daemon at such a moment, and asks the next one the same.
func (s *scene) cutWhileBegun(id string, at between) (hit bool) {
	s.t.Helper()
	body := map[string]any{
		"session_id": id, "input": "and now?", "instructions": "be kind",
		"conversation_history": []map[string]string{{"role": "user", "content": "before"}, {"role": "assistant", "content": "then"}},
	}
	asked, begun := make(chan int, 1), struct {
		ID string `json:"run_id"`
	}{}
	d := s.daemon
	go func() {
		status, answer, _ := d.under(id, "/v1/runs", body)
		_ = json.Unmarshal([]byte(answer), &begun)
		asked <- status
	}()
	at = between{strings.ReplaceAll(at.there, "'?'", "'"+id+"'"), strings.ReplaceAll(at.missing, "'?'", "'"+id+"'")}
	held, letGo := holdAt(s.t, filepath.Join(s.home, "state.db"), at)
	if !held {
		letGo()
		<-asked
		s.follows(begun.ID, 0, nil) // the next kill is not to meet its turn
		return false
	}
	s.killed()
	letGo()
	if status := <-asked; status != 0 {
		s.t.Errorf("%s: answered with %d although the store was held", id, status)
	}
	before := len(s.model.Requests())
	s.again(s.home)
	status, answer, _ := s.under(id, "/v1/runs", body)
	var run struct {
		ID     string `json:"run_id"`
		Status string
	}
	if status != http.StatusAccepted || json.Unmarshal([]byte(answer), &run) != nil {
		s.t.Fatalf("%s: asked again: %d %s", id, status, answer)
	}
	s.follows(run.ID, 0, nil)
	s.call(http.MethodGet, "/v1/runs/"+run.ID, nil, &run)
	if told := s.rows(id); run.Status != "completed" || roles(told) != "user assistant user assistant" || told[0].Content != "before" || told[2].Content != "and now?" {
		s.t.Errorf("%s: %+v, in the session: %+v", id, run, told)
	}
	var list struct{ Data []any }
	s.call(http.MethodGet, "/v1/runs?session_id="+id, nil, &list)
	if n := len(s.model.Requests()) - before; n != 1 || len(list.Data) != 1 {
		s.t.Errorf("%s: %d runs, and the model was asked %d times", id, len(list.Data), n)
	}
	return true
}

// unbegun is a request that makes a session for its message, and how that session is known in the store.
type unbegun struct {
	path string
	body map[string]any
	made string
}

// A session that is made for a message, with a told history or as a fork, is there with its message or not at all: a daemon that is killed
// between the two leaves nothing of it to the next one, and whoever asks again is answered.
func TestAKillBehindAToldHistoryLeavesNoSession(t *testing.T) {
	t.Parallel()
	s := newScene(t, forever(), func(fakellm.Request) fakellm.Response { return fakellm.Text{Text: "answered"} })
	var first struct{ ID string }
	s.call(http.MethodPost, "/v1/responses", map[string]any{"input": "first of all"}, &first)
	forms := map[string]func(said string) unbegun{
		"run": func(said string) unbegun {
			history := []map[string]string{{"role": "user", "content": "before " + said}, {"role": "assistant", "content": "then"}}
			return unbegun{"/v1/runs", map[string]any{"input": said, "conversation_history": history}, `SELECT 1 FROM messages WHERE content = 'before ` + said + `'`}
		},
		"response": func(said string) unbegun {
			input := []map[string]string{{"role": "user", "content": "before " + said}, {"role": "assistant", "content": "then"}, {"role": "user", "content": said}}
			return unbegun{"/v1/responses", map[string]any{"input": input}, `SELECT 1 FROM messages WHERE content = 'before ` + said + `'`}
		},
		"fork": func(said string) unbegun {
			return unbegun{
				"/v1/responses",
				map[string]any{"input": said, "previous_response_id": first.ID, "instructions": "for " + said},
				`SELECT 1 FROM sessions s JOIN prompts p ON p.hash = s.prompt_hash WHERE p.body LIKE '%for ` + said + `'`,
			}
		},
	}
	for name, form := range forms {
		hit := false
		for try := 0; try < 40 && !hit; try++ {
			hit = s.cutBeforeItsMessage(name, form(name+strings.Repeat("x", try)))
		}
		if !hit {
			t.Errorf("%s: the daemon was quicker each time, so this is NOT shown", name)
		}
	}
	s.stop()
}

// cutBeforeItsMessage kills the daemon when the session is there and the message is not.
func (s *scene) cutBeforeItsMessage(name string, u unbegun) (hit bool) {
	s.t.Helper()
	said, ok := u.body["input"].(string)
	if list, items := u.body["input"].([]map[string]string); items {
		said, ok = list[len(list)-1]["content"], true
	}
	if !ok {
		s.t.Fatal("no input")
	}
	d, asked := s.daemon, make(chan error, 1)
	go func() { asked <- d.try(http.MethodPost, u.path, u.body, nil) }()
	at := between{u.made, `SELECT 1 FROM messages WHERE content = '` + said + `' UNION ALL SELECT 1 FROM inbox WHERE content = '` + said + `'`}
	path := filepath.Join(s.home, "state.db")
	held, letGo := holdAt(s.t, path, at)
	if !held {
		letGo()
		<-asked
		return false
	}
	s.killed()
	letGo()
	<-asked
	s.again(s.home)
	c, err := sqlite.OpenBare(path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if finds(s.t, c, u.made) {
		s.t.Errorf("%s: a session is there to which nothing was said", name)
	}
	if err := s.try(http.MethodPost, u.path, u.body, nil); err != nil || !finds(s.t, c, u.made) {
		s.t.Errorf("%s: asked again: %v", name, err)
	}
	return true
}
