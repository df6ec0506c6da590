package provider

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mendsMost bounds how often one call is repeated in another form. Each mend must change the bytes that are sent, or it is none: so a
// refusal of something that we did not add fails at once.
const mendsMost = 4

// parameter is one that we add to requests, with the words by which servers refuse it.
type parameter struct {
	name  string
	names *regexp.Regexp
}

// parameters are all that we add and can do without.
var parameters = []parameter{
	{paramUsage, regexp.MustCompile(`\bstream_options\b|\binclude_usage\b|\bstream options\b`)},
	{paramMax, regexp.MustCompile(`\bmax_tokens\b|\bmaxtokens\b`)},
	{paramMaxNew, regexp.MustCompile(`\bmax_completion_tokens\b`)},
	{paramTemp, regexp.MustCompile(`\btemperature\b`)},
	{paramTopP, regexp.MustCompile(`\btop_p\b|\btop p\b|\btopp\b`)},
	{paramStop, regexp.MustCompile("[\"'`]stop[\"'`]|\\bstop (?:sequences?|words?|parameter)\\b|\\b(?:parameter|argument|field|name|supplied:|model:):? stop\\b")},
	{paramStopSeq, regexp.MustCompile(`\bstop_sequences\b`)},
	{paramSeed, regexp.MustCompile(`\bseed\b`)},
	{paramEffort, regexp.MustCompile(`\breasoning_effort\b|\breasoning[ .]?effort\b|\bthink value\b|support thinking|support reasoning`)},
	{paramProgress, regexp.MustCompile(`\breturn_progress\b`)},
	{paramThinking, regexp.MustCompile(`\bthinking\b|\bbudget_tokens\b`)},
	{paramExtra, regexp.MustCompile(`\bextra_content\b`)},
	{paramDetails, regexp.MustCompile(`\breasoning_details\b`)},
	{paramOutput, regexp.MustCompile(`\boutput_config\b`)},
	{paramCache, regexp.MustCompile(`\bcache_control\b|\bprompt caching\b|\bephemeral\b`)},
}

// refusing are the ways to say that a field is not wanted.
var refusing = regexp.MustCompile(`unsupported|not supported|n't support|not support|unrecogni[sz]ed|unknown|unexpected|extra inputs|extra fields|extra_forbidden|` +
	`extraneous|not permitted|not allowed|additional propert|not available|cannot find field|no such field|not implemented|deprecated|no longer|` +
	`invalid (?:parameter|argument|value|field|request)|only the default|disallowed|not accept|not a valid|could not be parsed|input should be ['"]`)

// both: two parameters of which one may be there.
var both = regexp.MustCompile(`cannot both|not both|use only one|only one of`)

var (
	outputLimits = []*regexp.Regexp{
		regexp.MustCompile(`max_(?:completion_)?tokens: [0-9]+ > ([0-9]+)`),
		regexp.MustCompile(`supports at most ([0-9]+) (?:completion|output) tokens`),
		regexp.MustCompile(`max_(?:completion_)?tokens[^0-9]{0,40}(?:at most|less than or equal to|<=|cannot exceed|up to|maximum (?:value )?(?:of|is)|\[1, ?)[^0-9]{0,3}([0-9]+)`),
	}
	roomForms = []*regexp.Regexp{
		regexp.MustCompile(`exceed context limit: (?P<in>[0-9]+) \+ [0-9]+ > (?P<all>[0-9]+)`),
		regexp.MustCompile(`maximum context length is (?P<all>[0-9]+) tokens.*requested [0-9]+ output tokens.* (?P<in>[0-9]+) input tokens`),
		regexp.MustCompile(`maximum context length is (?P<all>[0-9]+) tokens.*\((?P<in>[0-9]+) (?:of text input|in the messages|in your prompt)`),
		regexp.MustCompile(`maximum context length is (?P<all>[0-9]+) tokens and your request has (?P<in>[0-9]+) input tokens`),
		regexp.MustCompile(`passed (?P<in>[0-9]+) input tokens and requested [0-9]+ output tokens.*context length is only (?P<all>[0-9]+)`),
		regexp.MustCompile(`maximum context length of (?P<all>[0-9]+) tokens.*: (?P<in>[0-9]+) tokens from the input`),
		regexp.MustCompile(`max_new_tokens.? must be <= (?P<all>[0-9]+)\. given: (?P<in>[0-9]+) .?inputs`),
	}
	unknownName = regexp.MustCompile(`(?:unknown name|unsupported (?:schema )?keyword:?|keyword) \\?["'` + "`" + `](\$?\w+)`)
	notPermit   = regexp.MustCompile(`["'` + "`" + `](\$?\w+)\\?["'` + "`" + `] is not (?:permitted|supported|allowed)`)
)

// callID finds a refusal of what the id of a call looks like.
var callID = regexp.MustCompile(`(?:tool.?call.?ids? |\bid['"]?: |tool_use\.id: |tool_use_id: |call_id['"]?: ).{0,200}(?:must be a-z|length 9|length of 9|string too long|should match pattern|expected an id)`)

// roomLeast is the smallest rest of a window in which an answer is still worth asking for.
const roomLeast = 1024

// mended gives the manner in which to ask again after a refusal, what was changed for people, and whether it may be remembered for later
// calls. what is empty when nothing helps. It is pure.
func mended(m manner, err *Error) (next manner, what []string, once bool) {
	if room := roomLeft(err); room >= roomLeast {
		next = m.copy()
		next.maxOutput = room
		return next, []string{"a shorter answer"}, true
	}
	if !mendable(err) {
		return m, nil, false
	}
	next = m.copy()
	if limit := outputLimit(err.words); limit > 0 {
		next.maxOutput = limit
		return next, []string{"an answer of at most " + strconv.Itoa(limit) + " tokens"}, false
	}
	if form := formOf(err); form != "" {
		next.not[form] = true
		switch form {
		case formSigned:
			next.not[paramThinking] = true
		case formKeywords:
			for _, word := range namedKeywords(err.words) {
				next.keywords[word] = true
			}
		}
		return next, []string{"without " + form}, form == formImages && !blind(err.words)
	}
	if both.MatchString(err.words) && hasAny(err.words, []string{paramTopP}) {
		next.not[paramTopP] = true
		return next, []string{"without " + paramTopP}, false
	}
	if !refusing.MatchString(err.words) {
		return m, nil, false
	}
	for _, p := range parameters {
		if p.names.MatchString(err.words) && !next.not[p.name] {
			next.not[p.name] = true
			what = append(what, "without "+p.name)
		}
	}
	return next, what, false
}

// mendable: what is about the request's form. Templates and grammars fail inside servers, which then say 500, or nothing but words.
func mendable(err *Error) bool {
	switch err.Class {
	case FormatError, Unknown:
		return true
	case ServerError:
		return refusedForm(err.words) != "" || strings.Contains(err.words, "think value")
	case ModelNotFound, PayloadTooLarge: // of an aggregator that has no such model which sees, of a template that mlx_lm reports so, and of a picture's bytes
		return slices.Contains([]string{formImages, formIDs}, refusedForm(err.words)) || err.Class == PayloadTooLarge
	}
	return false
}

// formOf is refusedForm with what the class alone says: of a request that is too large, pictures are what can be left out.
func formOf(err *Error) string {
	if form := refusedForm(err.words); form != "" || err.Class != PayloadTooLarge {
		return form
	}
	return formImages
}

// Wordings of servers that take no pictures, and of those that do not take this one.
var (
	blindWords = []string{
		"support image", "support images", "support vision", "support multimodal", "image input is not supported", "image inputs are not supported", "images are not supported",
		"image_url is only supported", "image content is not supported", "vision is not", "not a multimodal model", "not a vision", "no multimodal", "mmproj", "at most 0 image",
		"unknown variant `image_url`", "unknown variant `image`", "'image_url' is not supported", "image_url is not supported", "invalid content type. image_url", "unsupported content type 'image",
		"does not accept image", "cannot read image", "cannot process images", "content must be a string", "content should be a string", "content: invalid type: sequence",
		"content: value is not a string", "content must be string", "only text content", "only supports text", "text-only", "text only", "image support",
	}
	badPictureWords = []string{
		"image exceeds", "image too large", "image is too large", "images are too large", "image size", "image dimensions", "image file is too", "could not process image", "unable to process image",
		"unable to process input image", "invalid image", "invalid base64 image", "unsupported image", "failed to decode image", "failed to load image", "image format", "cannot identify image",
		"too many images", "many-image", "image_parse_error", "image was specified using", "image media type", "failed to process image", "image data", "pixels",
	}
)

// blind: the server takes no pictures at all, which is worth remembering.
func blind(text string) bool {
	return slices.ContainsFunc(blindWords, func(word string) bool { return strings.Contains(text, word) })
}

// refusedForm recognises the forms that servers stumble over.
func refusedForm(text string) string {
	has := func(list ...string) bool {
		return slices.ContainsFunc(list, func(word string) bool { return strings.Contains(text, word) })
	}
	switch {
	case strings.Contains(text, "reasoning_content") && has("passed back", "missing", "must include", "is required", "must be provided"):
		return formBare
	case strings.Contains(text, "reasoning details to be preserved"):
		return formUndetailed
	case has("must define tools", "toolconfig field must be defined", "expects the `tools=` param"):
		return formToolless
	case strings.Contains(text, "missing a") && strings.Contains(text, "thought_signature"):
		return formUnsigned
	case strings.Contains(text, "thinking.type.enabled"):
		return formBudget
	case callID.MatchString(text):
		return formIDs
	case strings.Contains(text, "thinking") && has("signature", "expected `thinking`", "must start with a thinking block", "cannot be modified"):
		return formSigned
	case has("roles must alternate", "must alternate", "alternate between", "alternating roles", "consecutive user messages", "unexpected role 'user' after role 'tool'"):
		return formRoles
	case has("system role not supported", "system role is not supported", "does not support system", "does not support the system", "only user and assistant roles are supported",
		"only user, assistant and tool roles", "system message must be at the beginning", "system messages are not supported", "developer instruction is not enabled"):
		return formSystem
	case has("pattern must start", "failed to parse grammar", "json schema conversion failed", "unable to generate parser", "failed to initialize samplers", "invalid regex"):
		return formConstraint
	case len(namedKeywords(text)) > 0 && has("schema", "parameters", "function_declarations", "tools[", "tools."):
		return formKeywords
	case strings.Contains(text, "content") && has("must be non-empty", "non-empty content", "content cannot be empty", "content must not be empty", "content is empty", "empty content",
		"content field is required", "'content' is empty", "content should not be empty"):
		return formEmpty
	case blind(text), has(badPictureWords...):
		return formImages
	}
	return ""
}

// namedKeywords are the schema keywords that a refusal names.
func namedKeywords(text string) (named []string) {
	for _, form := range []*regexp.Regexp{unknownName, notPermit} {
		for _, match := range form.FindAllStringSubmatch(text, 64) {
			for keyword := range unusual {
				if strings.EqualFold(keyword, match[1]) {
					named = append(named, keyword)
				}
			}
			for keyword := range constraints {
				if strings.EqualFold(keyword, match[1]) {
					named = append(named, keyword)
				}
			}
		}
	}
	return named
}

// outputLimit finds how many tokens an answer may have at most.
func outputLimit(text string) int {
	for _, form := range outputLimits {
		if match := form.FindStringSubmatch(text); match != nil {
			if n, err := strconv.Atoi(match[1]); err == nil && n > 0 {
				return n
			}
		}
	}
	return 0
}

// roomLeft is what the window leaves for an answer when only prompt and wished answer together were too long.
func roomLeft(err *Error) int {
	if err.Class != ContextOverflow {
		return 0
	}
	for _, form := range roomForms {
		match := form.FindStringSubmatch(err.words)
		if match == nil {
			continue
		}
		all, _ := strconv.Atoi(match[form.SubexpIndex("all")])
		in, _ := strconv.Atoi(match[form.SubexpIndex("in")])
		return all - in - 16
	}
	return 0
}
