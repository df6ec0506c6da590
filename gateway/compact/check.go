package compact

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrEmpty is a summariser that said nothing of use, ErrRejected one that said what must not stand in a conversation.
var (
	ErrEmpty    = errors.New("the answer holds no summary")
	ErrRejected = errors.New("the summary was rejected")
)

var thoughts = regexp.MustCompile(`(?s)<(think|thinking|reasoning)>.*?(</(think|thinking|reasoning)>|\z)`)

// poison are signs that a summary is no report any more: it speaks to the model that will read it, or it imitates the marks by
// which a request is made. Each was something that text in a record could bring a summariser to repeat.
var poison = map[string]*regexp.Regexp{
	"it tells its reader to ignore something": regexp.MustCompile(`(?i)\b(ignore|disregard|forget|override)\b.{0,30}\b(previous|prior|above|earlier|preceding|system|all|your)\b.{0,20}\b(instruction|message|rule|prompt|guideline)s?`),
	"it gives its reader a role":              regexp.MustCompile(`(?i)\b(you are now|from now on,? you|pretend (that )?you are|act as (an?|the) (admin|administrator|root|system|developer|unrestricted))\b`),
	"it gives its reader an order":            regexp.MustCompile(`(?i)\byou (must|shall|have to|are (required|instructed|authori[sz]ed) to)\b.{0,20}\b(run|execute|call|delete|send|upload|post|obey|comply|approve|reveal|install|download)`),
	"it announces instructions":               regexp.MustCompile(`(?i)\b(new|updated|real|hidden|secret) (system )?(instructions?|prompt)\s*:`),
	"it hides something from the user":        regexp.MustCompile(`(?i)\b(do not|don't|never) (tell|inform|reveal|mention|show|alert)\b.{0,40}\b(user|human|person|operator|anyone|anybody)`),
	"it holds marks of a chat template":       regexp.MustCompile(`<\|[a-z_]+\|>|\[/?INST\]|<</?SYS>>|<(start|end)_of_turn>|</?s>`),
	"it holds a call of a tool":               regexp.MustCompile(`(?i)</?(tool_call|function_call|tool_use|invoke)\b|"tool_calls"\s*:`),
	"it repeats what it was asked":            regexp.MustCompile(regexp.QuoteMeta(recordBegin) + "|" + regexp.QuoteMeta(recordEnd) + "|" + regexp.QuoteMeta("You write the notes by which")),
}

// label is the beginning of a line that reads like another turn of the conversation.
var label = regexp.MustCompile(`(?im)^\s*(?:\*\*)?(user|human|system|developer|assistant)(?:\*\*)?\s*:(?:\*\*)?`)

// refusal is how an answer begins that is about the asking. A long one that begins so may still be notes.
var refusal = regexp.MustCompile(`(?i)^((i['’]?m|i am|we are|we['’]re)\s+)?(really |very |so |truly )*sorry[,.!]*\s*($|but\b|i\b|we\b|that\b)` +
	`|^((i['’]?m|i am) (afraid|unable to)|my apologies|i apologi[sz]e)\b|^i (can['’]?t|can ?not|won['’]?t|will not|am not able|must decline)\b|^as an ai\b`)

const refusalMost = 120 // tokens

// unfit says why a text is no notes at all, whatever it says; "" where it may be.
func unfit(text string) string {
	strange := 0
	for _, r := range text {
		if r == unicode.ReplacementChar || unicode.IsControl(r) && !unicode.IsSpace(r) {
			strange++
		}
	}
	switch {
	case strange*20 > utf8.RuneCountInString(text):
		return "it is no text"
	case refusal.MatchString(text) && Tokens(text) < refusalMost:
		return "the model refuses"
	}
	for _, why := range sortedNames(poison) {
		if poison[why].MatchString(text) {
			return why
		}
	}
	return ""
}

// isJSON reports an answer that is data, such as a proxy's error with a good status.
func isJSON(text string) bool {
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(text, "```"), "json"), "```"))
	return strings.HasPrefix(text, "{") && json.Valid([]byte(text)) || strings.HasPrefix(text, "[") && json.Valid([]byte(text))
}

// Check gives a summary that may stand in a conversation, or says why it may not: an error that Is ErrEmpty or ErrRejected.
// redact takes secrets out; nil leaves them.
func Check(text string, p Prompt, redact func(string) string) (string, error) {
	for thoughts.MatchString(text) { // what one leaves may be another
		text = thoughts.ReplaceAllString(text, "")
	}
	text = strings.TrimSpace(text)
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(text, notesBegin), notesEnd))
	switch why := unfit(text); {
	case text == "":
		return "", ErrEmpty
	case isJSON(text):
		return "", fmt.Errorf("%w: it is JSON", ErrEmpty)
	case why != "":
		return "", fmt.Errorf("%w: %s", ErrRejected, why)
	}
	if n := Tokens(text); n > 3*max(p.Want, 200) {
		return "", fmt.Errorf("%w: it has about %d tokens instead of %d", ErrRejected, n, p.Want)
	}
	text = label.ReplaceAllString(text, "- the $1:")
	if redact != nil {
		text = redact(text)
	}
	return text, nil
}
