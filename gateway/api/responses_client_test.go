package api

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gatewayd/internal/fakellm"
)

// responsesScript is a program as its author would write it against OpenAI's service.
const responsesScript = `
import OpenAI from "openai";
const [base, key] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base + "/v1", apiKey: key, maxRetries: 0 });
const out = {};

const first = await client.responses.create({ model: "gatewayd", input: "hello", instructions: "be kind" });
out.first = first.output_text; out.status = first.status; out.usage = first.usage.total_tokens;

const helper = client.responses.stream({ model: "gatewayd", input: "and now?", previous_response_id: first.id });
out.events = []; out.numbers = true; let n = 0;
for await (const e of helper) { out.numbers = out.numbers && e.sequence_number === n++; if (out.events.at(-1) !== e.type) out.events.push(e.type); }
const second = await helper.finalResponse();
out.second = second.output_text; out.previous = second.previous_response_id === first.id;

out.again = (await client.responses.retrieve(second.id)).output_text;
out.items = []; for await (const item of client.responses.inputItems.list(second.id)) out.items.push(item.content[0].text);

let streamed = "";
for await (const e of await client.responses.create({ model: "gatewayd", input: [{ role: "user", content: "plain" }], stream: true, store: false }))
  if (e.type === "response.output_text.delta") streamed += e.delta;
out.streamed = streamed;

let run = await client.responses.create({ model: "gatewayd", input: "later", background: true });
out.queued = run.status;
while (run.status === "queued" || run.status === "in_progress") { await new Promise(r => setTimeout(r, 50)); run = await client.responses.retrieve(run.id); }
out.background = run.output_text;

await client.responses.delete(second.id);
const caught = async (f) => { try { await f(); return "nothing"; } catch (e) { return [e.constructor.name, e.status ?? null, e.param ?? null]; } };
out.deleted = await caught(() => client.responses.retrieve(second.id));
out.both = await caught(() => client.responses.create({ model: "gatewayd", input: "x", previous_response_id: first.id, conversation: "c" }));
console.log(JSON.stringify(out));
`

// The npm package openai makes, streams, chains, lists, waits for and deletes responses.
func TestTheOpenAIPackageIsAnsweredByResponses(t *testing.T) {
	node, npm := tool(t, "node"), tool(t, "npm")
	dir := t.TempDir()
	install := exec.CommandContext(bounded(t), npm, "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "openai@6")
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the npm package openai could not be installed, so it was not tried: %v\n%s", err, out)
	}
	script := filepath.Join(dir, "script.mjs")
	if err := os.WriteFile(script, []byte(responsesScript), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, nil, fakellm.Text{Text: "hello, human"}, fakellm.ToolCall{Name: "nothing", Args: "{}", Text: "Looking."}, fakellm.Text{Text: "now, bit by bit"},
		fakellm.Text{Text: "plain words"}, fakellm.Text{Text: "done"})
	cmd := exec.CommandContext(bounded(t), node, script, h.URL, testKey)
	cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var got struct {
		First, Status, Second, Again, Streamed, Queued, Background string
		Usage                                                      int
		Numbers, Previous                                          bool
		Events, Items                                              []string
		Deleted, Both                                              []any
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	want := `{"First":"hello, human","Status":"completed","Second":` + asJSON(t, got.Again) + `,"Again":` + asJSON(t, got.Again) +
		`,"Streamed":"plain words","Queued":"queued","Background":"done","Usage":15,"Numbers":true,"Previous":true`
	if text := asJSON(t, got); !bytes.HasPrefix([]byte(text), []byte(want)) || got.Events[len(got.Events)-1] != "response.completed" ||
		len(got.Items) != 1 || got.Items[0] != "and now?" || asJSON(t, got.Deleted) != `["NotFoundError",404,null]` || asJSON(t, got.Both) != `["BadRequestError",400,"previous_response_id"]` {
		t.Errorf("got %s", text)
	}
	if len(got.Second) < len("now, bit by bit") {
		t.Errorf("the second: %q", got.Second)
	}
}
