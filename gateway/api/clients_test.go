package api

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// tool finds a program, or skips the test aloud.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED: %s is not installed, so a real client was not tried: %v", name, err)
	}
	return path
}

func curl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(bounded(t), tool(t, "curl"), append([]string{"-sS", "--noproxy", "*", "-N", "-H", "Authorization: Bearer " + testKey}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("curl %v: %v %s", args, err, errs.String())
	}
	return out.String()
}

func TestCurlIsAnswered(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "in one piece"}, fakellm.Text{Text: "bit by bit by bit"})
	chat := h.URL + "/v1/chat/completions"
	whole := curl(t, "-i", chat, "-H", "Content-Type: application/json", "-H", headerSession+": from-curl", "-d", hello)
	for _, want := range []string{"HTTP/1.1 200", headerSession + ": from-curl", `"content":"in one piece"`, `"finish_reason":"stop"`, `"total_tokens":15`} {
		if !strings.Contains(whole, want) {
			t.Errorf("lacks %s:\n%s", want, whole)
		}
	}
	list, _ := frames(t, strings.NewReader(curl(t, chat, "-H", "Content-Type: application/json", "-H", headerSession+": from-curl", "-d", helloStream)))
	if got := read(t, list); got.text != "bit by bit by bit" || !got.done || got.finish != "stop" || len(list) < 4 {
		t.Errorf("%d events: %+v", len(list), got)
	}
	if got := h.rows(t, "from-curl"); got != "user:hello|assistant:in one piece|user:hello|assistant:bit by bit by bit|" {
		t.Errorf("rows: %s", got)
	}
	if form := curl(t, chat, "-d", hello); !strings.Contains(form, "unsupported_media_type") || !strings.Contains(form, "application/json") {
		t.Errorf("curl without a type is not told what to send: %s", form)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, bytes.Repeat([]byte("x"), DefaultMaxBody+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range [][]string{{}, {"-H", "Transfer-Encoding: chunked"}} {
		if refused := curl(t, append([]string{chat, "-H", "Content-Type: application/json", "--data-binary", "@" + large}, how...)...); !strings.Contains(refused, "body_too_large") {
			t.Errorf("%v: %.300s", how, refused)
		}
	}
}
