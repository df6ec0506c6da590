package provider

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxMessage bounds how much of a server's words goes into an error.
const maxMessage = 400

// Wordings, lower case. Servers agree on status codes only in part; these words decide where the code does not.
var (
	overflowWords = []string{
		"maximum context length", "max context length", "context length exceeded", "context_length_exceeded", "exceeds the context", "exceed the context", "exceed context limit",
		"context window", "available context size", "exceed_context_size", "exceeds context size", "configured context size", "prompt is too long", "prompt too long", "input is too long",
		"reduce the length of the messages", "reduce the length of your", "maximum model length", "max_model_len", "input length exceeds", "exceeds the maximum number of tokens",
		"exceeds maximum context", "larger than the maximum context", "too many tokens", "exceeds the limit of tokens", "input token count", "too many input tokens",
		"truncation is disabled", "n_ctx", "maximum prompt length", "greater than the context length", "longer than the model's context length", "longer than the maximum model length",
		"exceeded model token limit", "context length is only", "context limit", "model_context_window_exceeded", "token limit exceeded", "exceeds the maximum allowed length",
		"maximum allowed input length", "tokens in request more than max tokens allowed", "input tokens exceed", "long context beta", "required for long context", "content': string too long", "input': string too long",
		"prompt token count", "max_prompt_tokens_exceeded", "range of input length should be", "context size has been exceeded", "context size exceeded", "reached context length",
		"context overflow", "contextwindowexceeded", "exceeds context length", "exceeded context length", "exceed context length", "prompt exceeds max", "prompt tokens too long",
		"must be less than max_seq_len", "max_new_tokens` must be <=", "max_new_tokens must be <=", "`inputs` must have less than", "inputs must have less than",
	}
	// tokenRates are about tokens in a minute, which a shorter conversation would not help.
	tokenRates    = []string{"per minute", "per min", "per day", "rate limit", "rate_limit", "too many requests", "please wait before", "throttl"}
	overloadWords = []string{"overloaded", "over capacity", "at capacity", "no available capacity", "server busy", "server is busy", "engine is currently", "slots are busy", "no available channel", "capacity constraints"}
	billingWords  = []string{
		"insufficient_quota", "insufficient quota", "insufficient credits", "insufficient credit", "insufficient balance", "exceeded your current quota", "billing", "payment required", "out of credits",
		"credit balance is too low", "more credits", "credit_balance", "quota exhausted", "usage limit reached", "spending limit", "account balance", "in arrears", "arrearage",
	}
	// moneyWords mean money whatever the status is.
	moneyWords   = []string{"credit balance is too low", "insufficient balance", "insufficient_quota", "insufficient credits", "requires more credits", "arrearage", "access denied due to overdue"}
	missingWords = []string{"model_not_found", "model not found", "does not exist", "no such model", "unknown model", "try pulling it", "no models loaded", "is not a valid model", "invalid model", "not_found_error", "no endpoints found", "model is not available"}
	policyWords  = []string{"content_policy", "content policy", "content management policy", "content_filter", "content filter", "safety system", "flagged as potentially violating", "data_inspection_failed", "content exists risk", "usage policy", "prohibited_content"}
	rateWords    = []string{"rate limit", "rate_limit", "too many requests", "throttl", "requests per minute", "tokens per minute"}
	// throttled are rates that hide behind a 400 or a 403.
	throttled     = []string{"too many requests", "throttl", "rate limit exceeded", "rate_limit_exceeded", "ratelimitexceeded"}
	crashWords    = []string{"model has crashed", "model is unloaded", "model unloaded", "channel error", "runner process has terminated", "tool_use_failed", "failed to call a function"}
	toollessWords = []string{
		"does not support tools", "support tool use", "support tool calling", "support function calling", "tool use is not supported", "tool calling is not supported",
		"function calling is not supported", "tools are not supported", "tools param requires", "requires --enable-auto-tool-choice", "tool choice requires --enable-auto",
	}
	upstreamWords = []string{"rate-limited upstream", "rate limited upstream", "upstream rate limit", "error from provider", "upstream_provider", "provider returned error"}
	authWords     = []string{"invalid_api_key", "incorrect api key", "invalid api key", "authentication_error", "unauthorized", "api key not valid", "invalid x-api-key", "api key expired", "no auth credentials", "permission_error", "login fail"}
)

// classify turns a failed answer into an Error. status 0 means the error came inside a 200. It is pure; the key is scrubbed by
// the client.
func classify(status int, header http.Header, body []byte) *Error {
	fields := errorFields(body)
	if status == 0 {
		status = fields.status
	}
	err := &Error{Status: status, Message: fields.message}
	if err.Message == "" {
		err.Message = strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
	}
	words := strings.ToLower(strings.Join([]string{fields.message, fields.code, fields.kind, fields.param, fields.raw}, " "))
	err.words = words
	err.Class = classOf(status, words)
	err.RetryAfter = retryAfter(header, body, fields.message)
	if err.Class == Billing && status == 429 && err.RetryAfter > 0 {
		err.Class = RateLimit // a quota that comes back by itself is a rate
	}
	if err.Class == ContextOverflow {
		err.Limit = contextLimit(body, words)
	}
	err.Remedy = remedies[err.Class]
	if err.Class == ModelNotFound && hasAny(words, toollessWords) {
		err.Remedy = "choose a model that takes tools, or start its server so that it does (llama.cpp: --jinja; vLLM: --enable-auto-tool-choice and --tool-call-parser)"
	}
	return err
}

func hasAny(words string, list []string) bool {
	return slices.ContainsFunc(list, func(word string) bool { return strings.Contains(words, word) })
}

// classOf is the table. Money and capacity hide behind 429 and 403, an overflow behind 400, 413 and 500.
func classOf(status int, words string) Class {
	has := func(list []string) bool { return hasAny(words, list) }
	switch {
	case status == 402, has(moneyWords), (status == 429 || status == 403 || status == 0) && has(billingWords) && !has(rateWords):
		return Billing
	case status == 429:
		return limited(words, has)
	case (status == 400 || status == 403) && has(throttled):
		return RateLimit
	case status == 401, status == 400 && has(authWords):
		return Auth
	case status == 403 && has(policyWords):
		return ContentPolicy
	case status == 403:
		return Auth
	case has(toollessWords):
		return ModelNotFound
	case status == 503, status == 529, status == 498: // the last is Groq's
		return Overloaded
	case status == 408, status == 504, status == 524:
		return Timeout
	case has(overflowWords) && !has(tokenRates):
		return ContextOverflow
	case status == 413:
		return PayloadTooLarge
	case has(crashWords), status == 409, status == 424, status == 425:
		return ServerError // of others: what it was busy with, or started with, is over the next time
	case status == 404, (status == 400 || status == 422 || status == 0) && has(missingWords):
		return ModelNotFound
	case has(policyWords):
		return ContentPolicy
	case status == 0:
		return classByWords(has)
	case status >= 500:
		return ServerError
	case status >= 300:
		return FormatError
	}
	return Unknown
}

// limited sorts a 429: what is too long for any minute is not a matter of waiting.
func limited(words string, has func([]string) bool) Class {
	switch {
	case largerThanItsMinute(words):
		return PayloadTooLarge
	case has(overloadWords):
		return Overloaded
	case has([]string{"long context"}):
		return ContextOverflow
	case has(upstreamWords):
		return UpstreamLimit
	}
	return RateLimit
}

// minute finds a limit in a minute and what was asked for.
var minute = regexp.MustCompile(`limit:? ([0-9,]+), requested:? ([0-9,]+)`)

// largerThanItsMinute: one request wants more than a minute allows, with nothing used up.
func largerThanItsMinute(words string) bool {
	match := minute.FindStringSubmatch(words)
	if match == nil {
		return false
	}
	limit, _ := strconv.Atoi(strings.ReplaceAll(match[1], ",", ""))
	asked, _ := strconv.Atoi(strings.ReplaceAll(match[2], ",", ""))
	return limit > 0 && asked > limit
}

// classByWords sorts an error that came inside a 200 without a code.
func classByWords(has func([]string) bool) Class {
	switch {
	case has(rateWords):
		return RateLimit
	case has(overloadWords):
		return Overloaded
	case has(authWords):
		return Auth
	case has([]string{"invalid_request_error", "invalid_argument", "invalid params", "invalidparameter", "bad_request_error"}):
		return FormatError
	}
	return ServerError
}

// remedies are what a person can do, one for each class that has one.
var remedies = map[Class]string{
	Auth:            "check the API key (model.api_key_env, model.api_key_file or GATEWAYD_MODEL_API_KEY)",
	Billing:         "the provider wants money or a higher quota; nothing here can change that",
	UpstreamLimit:   "the provider's own provider is busy; wait, or choose another model",
	RateLimit:       "wait, or ask the provider for a higher limit",
	Overloaded:      "the server has no room; try again later",
	Timeout:         "the server is too slow for model.first_token_timeout or model.stall_timeout, or it hangs; look at its log",
	Transport:       "check that the model server runs and that model.base_url is right",
	ContextOverflow: "the conversation is longer than the model's window; start a new one or give the server a larger window",
	PayloadTooLarge: "the request has too many bytes for this server; start a new conversation",
	ModelNotFound:   "check model.name, and that model.base_url has the path the server wants (most want /v1 at the end)",
	ContentPolicy:   "the provider refuses this content; say it otherwise or use another model",
	FormatError:     "this server does not accept the request; see its documentation for what it lacks",
}

// failure is what an error body says, from whichever place it says it in.
type failure struct {
	message, code, kind, param string
	raw                        string // what an aggregator was told by the server behind it
	status                     int
}

// errorFields reads the envelopes in use: {"error":{...}}, {"error":"..."}, [{"error":...}], {"message":...}, {"msg":...}, {"detail":...},
// {"base_resp":{"status_msg":...}}; else the text itself.
func errorFields(body []byte) failure {
	list := looseList(body)
	if len(list) == 0 {
		return failure{message: plainMessage(body)}
	}
	top := looseObject(list[0])
	inner := looseObject(top["error"])
	if inner == nil {
		inner = top
	}
	f := failure{kind: looseText(inner["type"]), code: looseText(inner["code"]), param: looseText(inner["param"])}
	f.raw = oneLine(looseText(looseObject(inner["metadata"])["raw"]))
	for _, name := range []string{"code", "status", "http_code", "status_code"} {
		if status, ok := looseInt(inner[name]); ok && status >= 400 && status < 600 {
			f.status = int(status)
			break
		}
	}
	for _, raw := range []json.RawMessage{inner["message"], top["error"], top["message"], top["msg"], looseObject(top["base_resp"])["status_msg"], top["detail"]} {
		if f.message = oneLine(looseText(raw)); f.message != "" {
			return f.withRaw()
		}
	}
	if detail := top["detail"]; len(detail) > 0 {
		f.message = oneLine(string(detail))
		return f
	}
	f.message = plainMessage(body)
	return f
}

// withRaw lets the server behind an aggregator speak where the aggregator has nothing to say.
func (f failure) withRaw() failure {
	if f.raw != "" && strings.EqualFold(strings.Trim(f.message, ". "), "provider returned error") {
		f.message += ": " + plainMessage([]byte(f.raw))
	}
	return f
}

// plainMessage is for bodies that are no JSON. A page of HTML says nothing a person wants to read.
func plainMessage(body []byte) string {
	text := oneLine(string(body[:min(len(body), 4*maxMessage)]))
	if lower := strings.ToLower(text); strings.HasPrefix(lower, "<!doctype") || strings.HasPrefix(lower, "<html") {
		return "it sent a web page instead of an answer"
	}
	return text
}

// oneLine makes a server's words safe to print: one line and no control characters. Its length is cut where the key has been scrubbed.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return strings.Join(strings.Fields(text), " ")
}

// shorten cuts a message at a character's border.
func shorten(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}

// limitPattern finds the window in the words. The number that follows "requested", "has" or "(" is the prompt's.
var limitPattern = regexp.MustCompile(`(?:context length (?:is|of)(?: only)?|context size[^0-9]{0,20}|context window[^0-9]{0,30}|context length \(|model length (?:is|of)|` +
	`maximum (?:number of tokens|of|prompt length is|allowed length|allowed input length of|context length)[^0-9]{0,20}|max_model_len[^0-9]{0,5}|n_ctx[^0-9]{0,5}|` +
	`token limit: |limit (?:of|is) |must (?:be less than max_seq_len|be <=|have less than) |model with |exceeds the maximum[^0-9]{0,40}|\[1, ?|> ) ?\(?([0-9][0-9,_]{2,})`)

// contextLimit finds the window in an overflow's body: a field where the server has one, else the number after the usual words.
func contextLimit(body []byte, words string) int {
	if list := looseList(body); len(list) > 0 {
		if n, ok := looseInt(looseObject(looseObject(list[0])["error"])["n_ctx"]); ok && n > 0 {
			return int(n)
		}
	}
	if strings.Contains(words, "long context") {
		return 200_000 // what such an account has without the extension
	}
	match := limitPattern.FindStringSubmatch(words)
	if match == nil {
		return 0
	}
	n, err := strconv.Atoi(strings.NewReplacer(",", "", "_", "").Replace(match[1]))
	if err != nil || n > 100_000_000 {
		return 0
	}
	return n
}
