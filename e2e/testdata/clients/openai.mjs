// A program as its author would write it against OpenAI's service.
import OpenAI from "openai";

const [base, key] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base + "/v1", apiKey: key });
const say = content => ({ model: "gatewayd", messages: [{ role: "user", content }] });
const caught = async f => { try { return await f(); } catch (e) { return [e.constructor.name, e.status ?? null, e.code ?? null]; } };
const out = {};

out.models = [];
for await (const m of client.models.list()) out.models.push(m.id);

const whole = await client.chat.completions.create(say("hello"));
out.whole = [whole.choices[0].message.content, whole.choices[0].finish_reason, whole.usage.total_tokens];

out.streamed = ""; let chunks = 0;
for await (const chunk of await client.chat.completions.create({ ...say("stream"), stream: true, stream_options: { include_usage: true } })) {
  chunks++;
  out.streamed += chunk.choices[0]?.delta.content ?? "";
  if (chunk.usage) out.streamUsage = chunk.usage.total_tokens;
}
out.inPieces = chunks > 3;

const weather = { type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } };
const tooled = await client.chat.completions.create({ ...say("tools"), tools: [weather], tool_choice: "auto", temperature: 0.2, seed: 7 });
out.toolsIgnored = [tooled.choices[0].message.content, tooled.choices[0].message.tool_calls ?? null];

const helper = client.chat.completions.stream(say("work"));
out.helper = (await helper.finalChatCompletion()).choices[0].message.content;

const first = await client.responses.create({ model: "gatewayd", input: "hello" });
const second = await client.responses.create({ model: "gatewayd", input: "hello again", previous_response_id: first.id });
out.responses = [first.status, first.output_text, second.output_text, (await client.responses.retrieve(second.id)).output_text];
out.responseStream = ""; let last = -1, rising = true;
for await (const event of await client.responses.create({ model: "gatewayd", input: "stream", stream: true })) {
  rising &&= event.sequence_number > last;
  last = event.sequence_number;
  if (event.type === "response.output_text.delta") out.responseStream += event.delta;
  if (event.type === "response.completed") out.responseEnd = event.response.output_text ?? event.response.status;
}
out.rising = rising;

out.badKey = await caught(() => new OpenAI({ baseURL: base + "/v1", apiKey: "wrong", maxRetries: 0 }).models.list());
out.badRequest = await caught(() => client.chat.completions.create({ model: "gatewayd", messages: [] }));
out.failed = await caught(() => client.chat.completions.create(say("fail")));
out.failedStream = await caught(async () => { for await (const c of await client.chat.completions.create({ ...say("fail stream"), stream: true })) c; });

const stream = await client.chat.completions.create({ ...say("abort"), stream: true });
out.aborted = "";
for await (const chunk of stream) {
  out.aborted += chunk.choices[0]?.delta.content ?? "";
  if (out.aborted) { stream.controller.abort(); break; }
}
console.log(JSON.stringify(out));
