package kanban

import (
	"regexp"
	"slices"
	"strings"

	"gatewayd/internal/mutation"
)

const redacted = "[redacted]"

// secretRule finds one kind of secret. What its first group holds stays; without a group all of it goes.
type secretRule struct {
	what  string
	find  *regexp.Regexp
	signs []string // one of these is in each text that holds it, in small letters where the rule takes both; to look is a hundred times cheaper
	place bool     // it is the place that makes it a secret, as its name does: in a program's text that is often none
}

// secretRules are few and well known: formats whose issuers gave them a prefix so that they can be found, and the places
// where a secret stands by its name. Whatever else a model writes stays as it is.
var secretRules = []secretRule{
	{"private keys", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`), []string{"PRIVATE KEY"}, false},
	{"AWS access keys", regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), []string{"AKIA", "ASIA"}, false},
	{"GitHub tokens", regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})`), []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, false},
	{"GitLab tokens", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`), []string{"glpat-"}, false},
	{"Slack tokens", regexp.MustCompile(`\b(?:xox[abeoprs]-|xapp-)[A-Za-z0-9-]{10,}`), []string{"xox", "xapp-"}, false},
	{"OpenAI, Anthropic and OpenRouter keys", regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{20,}`), []string{"sk-"}, false},
	{"Google keys", regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}`), []string{"AIza"}, false},
	{"Stripe keys", regexp.MustCompile(`\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}`), []string{"k_live_", "k_test_"}, false},
	{"npm, PyPI and Hugging Face tokens", regexp.MustCompile(`\b(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}|hf_[A-Za-z0-9]{30,})`), []string{"npm_", "pypi-", "hf_"}, false},
	{"JSON web tokens", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+`), []string{"eyJ"}, false},
	{"tokens of our own runs", regexp.MustCompile(`\brun\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{43}`), []string{"run."}, false},
	{"authorization headers", regexp.MustCompile(`(?i)(\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+)[^\s"',;]+`), []string{"authorization"}, true},
	{"passwords in addresses", regexp.MustCompile(`(\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?:@)`), []string{"://"}, false},
	{"values that are called secret", regexp.MustCompile(
		`(?i)(\b[\w.-]*(?:password|passwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token|access[_-]?token)["']?\s*[:=]\s*["']?)[^\s"',;]{8,}`), []string{"password", "passwd", "secret", "key", "token"}, true},
}

// Redact takes what looks like a secret out of a text that a model wrote or a command said, and each of the known values.
func Redact(text string, known ...string) string { return redact(text, true, known) }

// RedactIssued is Redact for the text of a file, in which a value that is only called a secret stays: a program that says
// `password = ask()` must be read as it is, or whoever mends it writes something else back.
func RedactIssued(text string, known ...string) string { return redact(text, false, known) }

func redact(text string, places bool, known []string) string {
	for _, value := range known {
		if len(value) >= 8 { // shorter ones are words
			text = strings.ReplaceAll(text, value, redacted)
		}
	}
	small := strings.ToLower(text)
	for _, rule := range secretRules {
		if rule.place && !places || !rule.mayBeIn(text, small) {
			continue
		}
		text = rule.find.ReplaceAllStringFunc(text, func(found string) string {
			kept := ""
			if groups := rule.find.FindStringSubmatch(found); len(groups) > 1 {
				kept = groups[1]
			}
			tail := ""
			if strings.HasSuffix(found, "@") {
				tail = "@"
			}
			return kept + redacted + tail
		})
	}
	return text
}

// mayBeIn looks for the rule's signs, in the text or in its small letters.
func (r secretRule) mayBeIn(text, small string) bool {
	return slices.ContainsFunc(r.signs, func(sign string) bool {
		return strings.Contains(text, sign) || r.place && strings.Contains(small, sign)
	})
}

// Redacting gives the same open board to a model or a worker: what looks like a secret in what it writes, and each of the
// known values, is never stored. Whatever the door, it is done here, where the words become rows.
func (b *Board) Redacting(known ...string) *Board {
	redacting := *b
	redacting.redacts, redacting.secrets = true, known
	return &redacting
}

// said is a text as it may be stored.
func (b *Board) said(text string) string {
	if !b.redacts || mutation.On("secrets-are-stored") {
		return text
	}
	return Redact(text, b.secrets...)
}

// saidObject does the same to every text inside an object, and leaves the object that it is given alone.
func (b *Board) saidObject(o map[string]any) map[string]any {
	if !b.redacts {
		return o
	}
	clean, _ := b.saidValue(o).(map[string]any)
	return clean
}

func (b *Board) saidValue(v any) any {
	switch v := v.(type) {
	case string:
		return b.said(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = b.saidValue(v[i])
		}
		return list
	case map[string]any:
		if v == nil {
			return v
		}
		object := make(map[string]any, len(v))
		for key := range v {
			object[key] = b.saidValue(v[key])
		}
		return object
	}
	return v
}
