package provider

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestEveryFailureHasItsClass(t *testing.T) {
	openai := func(message, code string) string {
		return `{"error":{"message":"` + message + `","type":"x","code":"` + code + `"}}`
	}
	cases := []struct {
		status int
		body   string
		want   Class
	}{
		{401, openai("Incorrect API key provided", "invalid_api_key"), Auth},
		{403, `{"error":"forbidden"}`, Auth},
		{400, openai("API key not valid. Please pass a valid API key.", "400"), Auth},
		{402, ``, Billing},
		{429, openai("You exceeded your current quota, please check your plan and billing details", "insufficient_quota"), Billing},
		{429, `{"error":{"message":"You exceeded your current quota","details":[{"retryDelay":"17s"}]}}`, RateLimit},
		{429, openai("Rate limit reached", "rate_limit_exceeded"), RateLimit},
		{429, openai("The engine is currently overloaded, please try again later", ""), Overloaded},
		{503, ``, Overloaded},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Overloaded},
		{500, `internal`, ServerError},
		{502, `<html><body>Bad Gateway</body></html>`, ServerError},
		{504, ``, Timeout},
		{408, ``, Timeout},
		{400, openai("This model's maximum context length is 8192 tokens. However, you requested 9000", "context_length_exceeded"), ContextOverflow},
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, ContextOverflow},
		{400, `{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096.","code":400}`, ContextOverflow},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, ContextOverflow},
		{413, openai("request too large", ""), PayloadTooLarge},
		{413, openai("prompt is too long", ""), ContextOverflow},
		{429, openai("Request too large: tokens per min limit 30000, maximum context length", ""), RateLimit},
		{404, `{"error":{"message":"model 'x' not found, try pulling it first"}}`, ModelNotFound},
		{404, `404 page not found`, ModelNotFound},
		{400, openai("The model gpt-9 does not exist", "model_not_found"), ModelNotFound},
		{400, openai("flagged", "content_policy_violation"), ContentPolicy},
		{403, openai("refused by our content policy", ""), ContentPolicy},
		{400, openai("messages.1.role must be user", ""), FormatError},
		{422, `{"detail":[{"loc":["body","tools"],"msg":"bad"}]}`, FormatError},
		{301, ``, FormatError},
		{0, openai("upstream", "502"), ServerError},
		{0, openai("slow down", "429"), RateLimit},
		{0, `{"error":"model requires more system memory than is available"}`, ServerError},
		{0, openai("Rate limit exceeded", ""), RateLimit},

		// Overflows, by who words them so.
		{400, `{"error":{"message":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}}`, ContextOverflow},                                                                                // xAI
		{400, `{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}`, ContextOverflow},                                      // Gemini
		{400, openai("Your input exceeds the context window of this model. Please adjust your input and try again.", "context_length_exceeded"), ContextOverflow},                                                             // OpenAI responses
		{400, `{"message":"Input is too long for requested model."}`, ContextOverflow},                                                                                                                                        // Bedrock
		{400, openai("Please reduce the length of the messages or completion.", ""), ContextOverflow},                                                                                                                         // Groq
		{400, openai("Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is greater than the context length", ""), ContextOverflow}, // LM Studio
		{400, openai("prompt token count of 130000 exceeds the limit of 128000", "model_max_prompt_tokens_exceeded"), ContextOverflow},                                                                                        // Copilot
		{400, openai("Invalid request: Your request exceeded model token limit: 131072", ""), ContextOverflow},                                                                                                                // Moonshot
		{400, openai("invalid params, context window exceeds limit (2013)", ""), ContextOverflow},                                                                                                                             // MiniMax
		{400, openai("Prompt contains 70000 tokens, too large for model with 32768 maximum context length", ""), ContextOverflow},                                                                                             // Mistral
		{400, openai("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", ""), ContextOverflow},                                                                                                 // SGLang
		{400, `{"error":{"message":"Range of input length should be [1, 30720]","code":"invalid_parameter_error"}}`, ContextOverflow},                                                                                         // DashScope
		{400, openai("input (5000 tokens) is longer than the model's context length (4096 tokens)", ""), ContextOverflow},                                                                                                     // Ollama
		{400, openai("prompt has 9,000 tokens, but the configured context size is 4,096 tokens", ""), ContextOverflow},                                                                                                        // LocalAI
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 178959 + 64000 > 200000, decrease input length"}}`, ContextOverflow},          // Anthropic
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long context requests."}}`, ContextOverflow},                                                                         // Anthropic, by tier
		{500, openai("context length exceeded", ""), ContextOverflow},
		{413, openai("Request too large for model in organization on tokens per minute (TPM): Limit 6000, Requested 9000", "rate_limit_exceeded"), PayloadTooLarge},                                                    // Groq: no window, a minute's tokens
		{400, openai("Throttling error: Too many tokens, please wait before trying again.", ""), RateLimit},                                                                                                            // Bedrock: no overflow
		{429, openai("Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 43000. The input or output tokens must be reduced.", "rate_limit_exceeded"), PayloadTooLarge}, // OpenAI: no wait helps
		{429, openai("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 3000.", "rate_limit_exceeded"), RateLimit},
		{500, `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`, ContextOverflow},                                                                                        // llama.cpp, while it writes
		{400, openai("request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it", ""), ContextOverflow},                                                                           // llama.cpp
		{400, `{"error":"Reached context length of 4096 tokens with this model, but this model does not currently support mid-generation context overflow"}`, ContextOverflow},                                    // LM Studio
		{400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`, ContextOverflow},                                                                                                                 // Zhipu
		{400, `{"code":20015,"message":"length of prompt_tokens (40000) must be less than max_seq_len (32768).","data":null}`, ContextOverflow},                                                                   // SiliconFlow
		{422, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`\",\"error_type\":\"validation\"}", ContextOverflow}, // TGI
		{422, "{\"error\":\"Input validation error: `inputs` must have less than 3072 tokens. Given: 4000\"}", ContextOverflow},
		{500, openai("Requested tokens (2285) exceed context window of 2048", ""), ContextOverflow},                                                                             // llama-cpp-python
		{400, openai("Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got 54.", "string_above_max_length"), FormatError}, // OpenAI: an id
		{400, openai("Invalid 'messages[0].content': string too long. Expected a string with maximum length 1048576.", "string_above_max_length"), ContextOverflow},

		// Money.
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing"}}`, Billing}, // Anthropic
		{429, openai("Your account org-x is suspended due to insufficient balance, please recharge your account or check your plan and billing details", ""), Billing},                   // Moonshot
		{402, openai("Insufficient Balance", "invalid_request_error"), Billing},                                                                                                          // DeepSeek
		{402, openai("This request requires more credits, or fewer max_tokens.", "402"), Billing},                                                                                        // OpenRouter
		{400, openai("credit insufficient balance: balance=0 required=4560", ""), Billing},                                                                                               // new-api
		{403, openai("insufficient_quota", ""), Billing},
		{400, `{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing. arrearage"}`, Billing}, // DashScope

		// What is over the next time, and what never is.
		{400, `{"error":"The model has crashed without additional information. (Exit code: 18446744072635812000)"}`, ServerError}, // LM Studio
		{400, `{"error":"Model unloaded."}`, ServerError},
		{400, `{"error":{"message":"No models loaded. Please load a model in the developer page"}}`, ModelNotFound},
		{500, `{"error":"llama runner process has terminated: exit status 2"}`, ServerError}, // Ollama
		{409, openai("lock timeout", ""), ServerError},
		{424, `{"error":"Request failed during generation","error_type":"generation"}`, ServerError}, // TGI
		{498, openai("Flex tier capacity exceeded", "capacity_exceeded"), Overloaded},                // Groq
		{403, openai("Too Many Requests", ""), RateLimit},
		{400, openai("registry.ollama.ai/library/gemma:2b does not support tools", "api_error"), ModelNotFound},                                     // Ollama
		{500, openai("tools param requires --jinja flag", "server_error"), ModelNotFound},                                                           // llama.cpp
		{400, openai(`\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`, "BadRequestError"), ModelNotFound}, // vLLM
		{404, openai("No endpoints found that support tool use.", ""), ModelNotFound},                                                               // OpenRouter

		// Rates, our own and the one behind an aggregator.
		{429, `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"some/model is temporarily rate-limited upstream. Please retry shortly","provider_name":"x"}}}`, UpstreamLimit}, // OpenRouter
		{429, openai("Error from provider (x): Too many requests", "429"), UpstreamLimit},
		{429, openai("Selected model is at capacity. Please try a different model.", ""), Overloaded},
		{503, openai("Service temporarily at capacity constraints", ""), Overloaded},
		{0, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Overloaded},
		{0, `{"type":"error","error":{"type":"rate_limit_error","message":"Number of request tokens has exceeded your per-minute rate limit"}}`, RateLimit},
		{0, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, Auth},
		{0, `{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}`, FormatError},
		{404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}`, ModelNotFound},
		{404, openai("No endpoints found for x/y.", ""), ModelNotFound},
		{400, `{"error":{"message":"Input data may contain inappropriate content.","code":"data_inspection_failed"}}`, ContentPolicy}, // DashScope
		{400, openai("Content Exists Risk", "invalid_request_error"), ContentPolicy},                                                  // DeepSeek
	}
	for _, c := range cases {
		err := classify(c.status, http.Header{}, []byte(c.body))
		if err.Class != c.want {
			t.Errorf("%d %s: class %s, want %s", c.status, c.body, err.Class, c.want)
		}
		if strings.TrimSpace(err.Message) == "" || strings.ContainsAny(err.Message, "\n") || strings.HasPrefix(err.Message, "<") {
			t.Errorf("%d %s: message %q is nothing for a person", c.status, c.body, err.Message)
		}
	}
}

func TestTheWindowIsReadOutOfTheOverflow(t *testing.T) {
	for body, want := range map[string]int{
		`{"error":{"message":"This model's maximum context length is 8,192 tokens."}}`:                                                                 8192,
		`{"error":{"message":"the request exceeds the available context size","n_ctx":4096}}`:                                                          4096,
		`{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096."}`:                                              4096,
		`{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}`:                                                                   200000,
		`{"error":{"message":"too many tokens"}}`:                                                                                                      0,
		`{"error":{"message":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}}`:                                 131072,
		`{"error":{"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."}}`:                              1048575,
		`{"error":{"message":"prompt token count of 130000 exceeds the limit of 128000, context window"}}`:                                             128000,
		`{"error":{"message":"Your request exceeded model token limit: 131072"}}`:                                                                      131072,
		`{"error":{"message":"Prompt contains 70000 tokens, too large for model with 32768 maximum context length"}}`:                                  32768,
		`{"error":{"message":"Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."}}`:                                      59862,
		`{"error":{"message":"Range of input length should be [1, 30720]"}}`:                                                                           30720,
		`{"error":{"message":"input (5000 tokens) is longer than the model's context length (4096 tokens)"}}`:                                          4096,
		`{"error":{"message":"prompt has 9,000 tokens, but the configured context size is 4,096 tokens"}}`:                                             4096,
		`{"error":{"message":"input length and max_tokens exceed context limit: 178959 + 64000 > 200000"}}`:                                            200000,
		`{"error":{"message":"request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it"}}`:                            4096,
		`{"error":"Reached context length of 4096 tokens with this model, but this model does not currently support mid-generation context overflow"}`: 4096,
		`{"message":"length of prompt_tokens (40000) must be less than max_seq_len (32768)."}`:                                                         32768,
		"{\"error\":\"`inputs` must have less than 3072 tokens. Given: 4000\"}":                                                                        3072,
		"{\"error\":\"`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens\"}":                                              4096,
		`{"error":{"message":"Please reduce the length of the messages. Current length is 9000 while limit is 8192"}}`:                                 8192,
		`{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens."}}`:                  272000,
		`{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 200000 tokens"}}`:                  131072,
		`{"error":{"message":"You passed 5000 input tokens and requested 9 output tokens. However, the model's context length is only 4096 tokens"}}`:  4096,
		`{"error":{"message":"maximum context length is 99999999999999999999 tokens"}}`:                                                                0,
	} {
		if err := classify(400, nil, []byte(body)); err.Limit != want || err.Class != ContextOverflow {
			t.Errorf("%s: %s, limit %d, want %d", body, err.Class, err.Limit, want)
		}
	}
}

func TestRetryAfterInEveryForm(t *testing.T) {
	date := func(d time.Duration) string {
		return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	cases := []struct {
		name   string
		header map[string]string
		body   string
		want   time.Duration
	}{
		{"seconds", map[string]string{"Retry-After": "7"}, "", 7 * time.Second},
		{"fraction", map[string]string{"Retry-After": "0.5"}, "", 500 * time.Millisecond},
		{"date against the server's clock", map[string]string{"Retry-After": date(90 * time.Second), "Date": date(0)}, "", 90 * time.Second},
		{"date in the past", map[string]string{"Retry-After": date(-time.Hour), "Date": date(0)}, "", 0},
		{"milliseconds", map[string]string{"Retry-After-Ms": "1500", "Retry-After": "9"}, "", 1500 * time.Millisecond},
		{"body", nil, `{"retry_after":3}`, 3 * time.Second},
		{"body in error", nil, `{"error":{"message":"x","retry_after":"4"}}`, 4 * time.Second},
		{"body in metadata", nil, `{"error":{"metadata":{"retry_after_seconds":5}}}`, 5 * time.Second},
		{"delay in details", nil, `{"error":{"details":[{"@type":"x"},{"retryDelay":"19.5s"}]}}`, 19500 * time.Millisecond},
		{"words", nil, `{"error":{"message":"Please try again in 1m2.5s. Thanks"}}`, 62500 * time.Millisecond},
		{"words spelt out", nil, `{"error":{"message":"try again in 20 seconds"}}`, 20 * time.Second},
		{"words in ms", nil, `{"error":{"message":"Please try again in 350ms."}}`, 350 * time.Millisecond},
		{"words in the header", map[string]string{"Retry-After": "1m30s"}, "", 90 * time.Second},
		{"time left of the limit", map[string]string{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "6m0s"}, "", 6 * time.Minute},
		{"time left of a limit that is not reached", map[string]string{"X-Ratelimit-Remaining-Requests": "7", "X-Ratelimit-Reset-Requests": "6m0s"}, "", 0},
		{"a moment in an aggregator's body", map[string]string{"Date": date(0)}, fmt.Sprintf(`{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"%d"}}}}`, time.Date(2026, 1, 2, 3, 4, 35, 0, time.UTC).UnixMilli()), 30 * time.Second},
		{"a moment in words", map[string]string{"Anthropic-Ratelimit-Requests-Remaining": "0", "Anthropic-Ratelimit-Requests-Reset": "2026-01-02T03:04:45Z", "Date": date(0)}, "", 40 * time.Second},
		{"Azure's milliseconds", map[string]string{"X-Ms-Retry-After-Ms": "1500"}, "", 1500 * time.Millisecond},
		{"a moment in seconds", map[string]string{"Retry-After": "1767323085", "Date": date(0)}, "", 40 * time.Second},
		{"a moment in RFC 3339", map[string]string{"Retry-After": "2026-01-02T03:04:45Z", "Date": date(0)}, "", 40 * time.Second},
		{"a limit's moment in seconds", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1767323085", "Date": date(0)}, "", 40 * time.Second},
		{"a limit of input tokens", map[string]string{"Anthropic-Ratelimit-Input-Tokens-Remaining": "0", "Anthropic-Ratelimit-Input-Tokens-Reset": "2026-01-02T03:04:45Z", "Date": date(0)}, "", 40 * time.Second},
		{"a limit of a day's requests", map[string]string{"X-Ratelimit-Remaining-Requests-Day": "0", "X-Ratelimit-Reset-Requests-Day": "3301.38"}, "", 3301380 * time.Millisecond}, // Cerebras
		{"a limit by the draft", map[string]string{"Ratelimit-Remaining": "0", "Ratelimit-Reset": "12"}, "", 12 * time.Second},
		{"the longer of two", map[string]string{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1s", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "2m0s"}, "", 2 * time.Minute},
		{"a model that is being loaded", nil, `{"error":"Model x is currently loading","estimated_time":20.5}`, 20500 * time.Millisecond}, // Hugging Face
		{"wait, in words", nil, `{"error":{"message":"Too many requests. Please wait 30 seconds."}}`, 30 * time.Second},
		{"retry, in words", nil, `{"error":{"message":"Please retry after 59 seconds."}}`, 59 * time.Second}, // Azure
		{"reset, in words", nil, `{"error":{"message":"busy (reset after 30s)"}}`, 30 * time.Second},
		{"retry so often", nil, `{"error":{"message":"retry 3 more times"}}`, 0},
		{"a moment in the past", map[string]string{"Retry-After": "1767323000", "Date": date(0)}, "", 0},
		{"zero", map[string]string{"Retry-After": "0"}, "", 0},
		{"negative", map[string]string{"Retry-After": "-5"}, "", 0},
		{"nonsense", map[string]string{"Retry-After": "soon"}, `{"retry_after":"NaN"}`, 0},
		{"beyond all clocks", map[string]string{"Retry-After": "1e300"}, "", 0},
	}
	for _, c := range cases {
		header := http.Header{}
		for name, value := range c.header {
			header.Set(name, value)
		}
		if got := classify(429, header, []byte(c.body)).RetryAfter; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestWaitsGrowAndStayBounded(t *testing.T) {
	server, overload := &Error{Class: ServerError}, &Error{Class: Overloaded}
	for i, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		if got := delay(server, i+1, 0); got != want*time.Second {
			t.Errorf("attempt %d: %s", i+1, got)
		}
	}
	for i, want := range []time.Duration{15, 30, 60, 120, 120} {
		if got := delay(overload, i+1, 0); got != want*time.Second {
			t.Errorf("overloaded, attempt %d: %s", i+1, got)
		}
	}
	if got := delay(server, 1, 0.99); got <= 2900*time.Millisecond || got > 3*time.Second {
		t.Errorf("jitter: %s", got)
	}
	if got := delay(&Error{Class: RateLimit, RetryAfter: time.Hour}, 1, 0.9); got != retryAfterCap {
		t.Errorf("Retry-After of an hour: %s", got)
	}
	if got := delay(&Error{Class: RateLimit, RetryAfter: time.Second}, 4, 0.9); got != time.Second {
		t.Errorf("Retry-After of a second: %s", got)
	}
}
