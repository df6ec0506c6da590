// The AI SDK with its provider for servers that speak as OpenAI does.
import { generateText, streamText } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const [base, key] = process.argv.slice(2);
const model = createOpenAICompatible({ name: "gatewayd", baseURL: base + "/v1", apiKey: key, includeUsage: true })("gatewayd");
const out = {};

const whole = await generateText({ model, prompt: "hello" });
out.whole = [whole.text, whole.finishReason, whole.usage.totalTokens];

const streamed = streamText({ model, prompt: "stream" });
let pieces = 0; out.streamed = "";
for await (const piece of streamed.textStream) { pieces++; out.streamed += piece; }
out.inPieces = pieces > 2;
out.streamUsage = (await streamed.usage).totalTokens;

out.failed = await generateText({ model, prompt: "fail", maxRetries: 0 }).then(() => "nothing", e => [e.statusCode, e.isRetryable, e.message.includes("stored")]);

let error = null;
for await (const part of streamText({ model, prompt: "fail stream", onError() {} }).fullStream) if (part.type === "error") error = part.error;
out.failedStream = error !== null;

const stop = new AbortController();
const cut = streamText({ model, prompt: "abort", abortSignal: stop.signal, onError() {} });
out.aborted = "";
for await (const part of cut.fullStream) {
  if (part.type === "text-delta") { out.aborted += part.text; stop.abort(); }
  if (part.type === "abort") out.abortSeen = true;
}
console.log(JSON.stringify(out));
