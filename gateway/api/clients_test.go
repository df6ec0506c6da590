package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gatewayd/gateway"
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

// sdkScript is a program as its author would write it against OpenAI's service.
const sdkScript = `
import OpenAI from "openai";
const [base, key] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base + "/v1", apiKey: key });
const messages = [{ role: "user", content: "hello" }];
const out = {};

out.models = []; for await (const m of client.models.list()) out.models.push(m.id);

const whole = await client.chat.completions.create({ model: "gatewayd", messages });
out.whole = whole.choices[0].message.content;
out.usage = whole.usage.total_tokens;

out.streamed = ""; out.chunks = 0;
const stream = await client.chat.completions.create({ model: "gatewayd", stream: true, stream_options: { include_usage: true },
  messages: [{ role: "system", content: "s" }, { role: "user", content: "stream" }] });
for await (const chunk of stream) {
  out.chunks++;
  out.streamed += chunk.choices[0]?.delta.content ?? "";
  if (chunk.choices[0]?.finish_reason) out.finish = chunk.choices[0].finish_reason;
  if (chunk.usage) out.streamUsage = chunk.usage.total_tokens;
}

const helper = client.chat.completions.stream({ model: "gatewayd", messages: [{ role: "user", content: "with tools" }] });
out.helper = (await helper.finalChatCompletion()).choices[0].message.content;

const caught = async (f) => { try { await f(); return "nothing"; } catch (e) { return [e.constructor.name, e.status ?? null, e.code ?? null]; } };
out.badKey = await caught(() => new OpenAI({ baseURL: base + "/v1", apiKey: "wrong" }).models.list());
out.badRequest = await caught(() => client.chat.completions.create({ model: "gatewayd", messages: [] }));
out.failed = await caught(() => client.chat.completions.create({ model: "gatewayd", messages: [{ role: "user", content: "fail" }] }));
out.failedStream = await caught(async () => { for await (const c of await client.chat.completions.create({ model: "gatewayd", stream: true, messages: [{ role: "user", content: "fail late" }] })) c.choices[0]?.delta; });
console.log(JSON.stringify(out));
`

// TestTheOpenAIPackageIsAnswered runs the npm package that most programs use, streamed and not.
func TestTheOpenAIPackageIsAnswered(t *testing.T) {
	node, npm := tool(t, "node"), tool(t, "npm")
	dir := t.TempDir()
	install := exec.CommandContext(bounded(t), npm, "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "openai@6")
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the npm package openai could not be installed, so it was not tried: %v\n%s", err, out)
	}
	script := filepath.Join(dir, "script.mjs")
	if err := os.WriteFile(script, []byte(sdkScript), 0o600); err != nil {
		t.Fatal(err)
	}
	chat := &sdkChat{}
	h := newHouse(t, nil, fakellm.Text{Text: "hello, human"}, fakellm.Text{Text: "bit by bit by bit"})
	server := httptest.NewServer(asDescribed(New(Options{Chat: chat.on(t, h), Sessions: h.store, Key: testKey, Addr: "127.0.0.1:0"})))
	t.Cleanup(server.Close)
	cmd := exec.CommandContext(bounded(t), node, script, server.URL, testKey)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "NO_PROXY=127.0.0.1")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, errs.String())
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if chunks, _ := got["chunks"].(float64); chunks < 3 {
		t.Errorf("streamed in %v chunks", chunks)
	}
	delete(got, "chunks")
	want := `{"badKey":["AuthenticationError",401,"invalid_api_key"],"badRequest":["BadRequestError",400,"invalid_value"],` +
		`"failed":["InternalServerError",502,"agent_incomplete"],"failedStream":["APIError",null,"agent_incomplete"],"finish":"stop",` +
		`"helper":"Looking.\n\nFound.","models":["gatewayd"],"streamUsage":15,"streamed":"bit by bit by bit","usage":15,"whole":"hello, human"}`
	if have, _ := json.Marshal(got); string(have) != want {
		t.Errorf("got  %s\nwant %s", have, want)
	}
	if n := chat.failures.Load(); n != 2 {
		t.Errorf("the package sent a stored message again: %d failures for two messages", n)
	}
}

// sdkChat is the house's gateway, except for messages that want a tool's events or a failure.
type sdkChat struct {
	scripted
	failures atomic.Int64
}

func (c *sdkChat) on(t *testing.T, h *house) Chat {
	t.Helper()
	real := h.chat
	c.say = func(ctx context.Context, say gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		failed := gateway.Result{Failed: true, FinishReason: "error", ExitReason: "model_failed", Text: "[no]"}
		switch say.Text {
		case "with tools":
			sink(gateway.Event{Kind: gateway.EventDelta, Text: "Looking."})
			sink(gateway.Event{Kind: gateway.EventToolStarted, Tool: "terminal", CallID: "c", Text: "{}"})
			sink(gateway.Event{Kind: gateway.EventToolFinished, Tool: "terminal", CallID: "c"})
			return answered("Found.", sink), nil
		case "fail late":
			sink(gateway.Event{Kind: gateway.EventToolStarted, Tool: "terminal", CallID: "c"})
			c.failures.Add(1)
			return failed, nil
		case "fail":
			c.failures.Add(1)
			return failed, nil
		}
		return real.Say(ctx, say, sink)
	}
	return c
}
