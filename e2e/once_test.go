package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gatewayd/internal/fakellm"
)

// once sends a chat under an Idempotency-Key; each is told of every line as it comes.
func (d *daemon) once(session, key string, stream bool, each func(line string)) (status int, body string, h http.Header) {
	raw, _ := json.Marshal(map[string]any{"stream": stream, "messages": []map[string]string{{"role": "user", "content": "do it " + key}}})
	req, err := http.NewRequest(http.MethodPost, d.base+"/v1/chat/completions", bytes.NewReader(raw))
	if err != nil {
		d.t.Error(err)
		return 0, "", nil
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + d.key, "Content-Type": "application/json", "X-Gatewayd-Session-Id": session, "Idempotency-Key": key,
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", nil
	}
	defer resp.Body.Close()
	var all strings.Builder
	for r := bufio.NewReader(resp.Body); ; {
		line, err := r.ReadString('\n')
		all.WriteString(line)
		if each != nil && line != "" {
			each(line)
		}
		if err != nil {
			return resp.StatusCode, all.String(), resp.Header
		}
	}
}

// A chat under an Idempotency-Key whose daemon is killed is asked again of the next one: it is answered from the rows when the turn had
// ended, and is told that it was cut off when not. The model is asked once, and the message stands there once.
func TestAKilledDaemonDoesNoRequestTwice(t *testing.T) {
	t.Parallel()
	model := fakellm.New(t, fakellm.Hang{}, fakellm.Text{Text: "one two three four", ChunkChars: 4}, fakellm.Text{Text: "whole"}, fakellm.Text{Text: "last"})
	home := newHome(t, "model: {base_url: "+model.URL()+", name: "+fakellm.Model+"}\nagent: {shutdown_grace: 1s}\n")
	d := start(t, home)
	kill := sync.OnceFunc(func() {})
	arm := func() {
		kill = sync.OnceFunc(func() {
			if err := d.child.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		})
	}
	again := func(session, key string, stream bool) (int, string, http.Header) {
		t.Helper()
		d.end()
		d = start(t, home)
		return d.once(session, key, stream, nil)
	}

	arm() // while the model is asked
	ended := make(chan struct{})
	go func() { defer close(ended); d.once("s1", "k1", false, nil) }()
	if _, err := model.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	kill()
	<-ended
	if status, body, _ := again("s1", "k1", false); status != http.StatusConflict || !strings.Contains(body, `"code":"interrupted"`) {
		t.Errorf("killed before the answer: %d %s", status, body)
	}
	if got := roles(d.rows("s1")); got != "user assistant" {
		t.Errorf("rows: %s", got)
	}

	arm() // when the end of the stream was told
	_, told, _ := d.once("s2", "k2", true, func(line string) {
		if strings.Contains(line, "[DONE]") {
			kill()
		}
	})
	receipt := regexp.MustCompile(`session=s2; [^"]*`).FindString(told)
	status, body, h := again("s2", "k2", true)
	if status != http.StatusOK || h.Get("Idempotency-Replayed") != "true" || !strings.Contains(body, "[DONE]") || receipt == "" || !strings.Contains(body, receipt) {
		t.Errorf("killed after the end of a stream with %s: %d %s", receipt, status, body)
	}

	arm() // as soon as an answer in one piece was told: it was remembered before
	first, whole, _ := d.once("s3", "k3", false, func(string) { kill() })
	status, body, h = again("s3", "k3", false)
	if first != http.StatusOK || status != first || body != whole || h.Get("Gatewayd-Receipt") == "" {
		t.Errorf("killed after %d %s: %d %s", first, whole, status, body)
	}
	if n := len(model.Requests()); n != 3 {
		t.Errorf("the model was asked %d times", n)
	}
	if status, body, _ := d.once("s3", "k4", false, nil); status != http.StatusOK || !strings.Contains(body, "last") {
		t.Errorf("a new key: %d %s", status, body)
	}
	for session, want := range map[string]string{"s1": "user assistant", "s2": "user assistant", "s3": "user assistant user assistant"} {
		if got := roles(d.rows(session)); got != want {
			t.Errorf("%s: %s", session, got)
		}
	}
	d.provesReceipt(t, receipt)
}

// provesReceipt asks the verb that people have for it; another digest is not proved.
func (d *daemon) provesReceipt(t *testing.T, receipt string) {
	t.Helper()
	if out, errs, code := cli(t, d.home, "sessions", "verify", "--receipt", receipt); code != 0 || !strings.HasPrefix(out, "PROVEN") {
		t.Errorf("verify: %d %s%s", code, out, errs)
	}
	other := regexp.MustCompile(`sha-256:.{4}`).ReplaceAllString(receipt, "sha-256:0000")
	if out, errs, code := cli(t, d.home, "sessions", "verify", "s2", "--receipt", other); code != 1 || !strings.HasPrefix(out, "NOT PROVEN") {
		t.Errorf("verify of another digest: %d %s%s", code, out, errs)
	}
}

var contentPiece = regexp.MustCompile(`"content":"([^"]*)"`)

// Two clients send the same at the same time over connections of their own: one turn, and both are told of it alike.
func TestTwoClientsWithOneKeyShareOneTurn(t *testing.T) {
	t.Parallel()
	model := fakellm.New(t, fakellm.Text{Text: "one two three four", ChunkChars: 2})
	d := start(t, newHome(t, "model: {base_url: "+model.URL()+", name: "+fakellm.Model+"}\n"))
	bodies := make(chan string, 8)
	var wg sync.WaitGroup
	for range cap(bodies) {
		wg.Go(func() {
			status, body, _ := d.once("s", "k", true, nil)
			bodies <- fmt.Sprint(status, body)
		})
	}
	wg.Wait()
	close(bodies)
	first := <-bodies
	for body := range bodies {
		if body != first {
			t.Errorf("one was told\n%s\nanother\n%s", first, body)
		}
	}
	said := ""
	for _, piece := range contentPiece.FindAllStringSubmatch(first, -1) { // as many as the model's, or fewer where some came at once
		said += piece[1]
	}
	if n := len(model.Requests()); n != 1 || said != "one two three four" {
		t.Errorf("the model was asked %d times: %s", n, first)
	}
}
