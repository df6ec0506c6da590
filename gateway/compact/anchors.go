package compact

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gatewayd/sessiondb"
)

// anchor is a kind of exact reference that a summary tends to lose, and that is found without a model.
type anchor struct {
	name  string
	find  *regexp.Regexp
	most  int
	valid func(string) bool
	bare  bool // addresses are no places to look for it in
}

var anchors = []anchor{
	{"Commits", regexp.MustCompile(`\b(?:[0-9a-f]{40}|[0-9a-f]{7,12})\b`), 12, mixed, false},
	{"Pull requests and issues", regexp.MustCompile(`https?://[^\s"'<>()]+/(?:pull|issues|merge_requests)/\d+|\b(?:PR|pull request|issue) ?#\d+|\B#\d{2,6}\b`), 12, nil, false},
	{"Paths", regexp.MustCompile(`(?:\.{1,2}|~)?(?:/[\w.@+-]+){2,}|\b[\w.@+-]+(?:/[\w.@+-]+)*/[\w@+-]+\.\w{1,8}\b`), 24, nil, true},
}

var (
	address   = regexp.MustCompile(`\w+://[^\s"'<>()]+`)
	errorLine = regexp.MustCompile(`(?m)^.*(?i:\berror\b|\bpanic:|\bfatal\b|\bexception\b|\btraceback\b|--- FAIL).*$`)
	errorMost = 6
	errorWide = 200
)

// mixed tells a hash from a number and from a word.
func mixed(word string) bool {
	return strings.ContainsAny(word, "0123456789") && strings.ContainsAny(word, "abcdef")
}

// References are the exact references in what is folded: commits, pull requests, paths, and the lines of errors among results.
// The newest of each kind, in the order in which they came. redact may be nil.
func (f Fold) References(redact func(string) string) string { return references(f.Folded(), redact) }

func references(rows []sessiondb.Message, redact func(string) string) string {
	text := earlier(rows) + "\n" + everything(rows)
	var b strings.Builder
	for _, a := range anchors {
		if a.bare {
			text = address.ReplaceAllString(text, " ")
		}
		if found := newest(a.find.FindAllString(text, -1), a.most, a.valid); len(found) > 0 {
			b.WriteString("\n" + a.name + ": " + strings.Join(found, ", "))
		}
	}
	for _, line := range newest(errorLines(rows), errorMost, harmless) {
		b.WriteString("\nError: " + line)
	}
	if b.Len() == 0 {
		return ""
	}
	out := "Exact references:" + b.String()
	if redact != nil {
		out = redact(out)
	}
	return out
}

// harmless keeps out of the notes what only looks like an error and speaks to the model: results are written by strangers.
func harmless(line string) bool { return unfit(line) == "" }

func everything(rows []sessiondb.Message) string {
	var b strings.Builder
	for _, m := range rows {
		if !isFolded(m) {
			b.WriteString(plain(Sent(m)) + "\n")
			for _, c := range callsOf(m) {
				b.WriteString(plain(c.Function.Arguments) + "\n")
			}
		}
	}
	return b.String()
}

func errorLines(rows []sessiondb.Message) (lines []string) {
	for _, m := range rows {
		if m.Role != "tool" {
			continue
		}
		for _, line := range errorLine.FindAllString(plain(m.Content), -1) {
			lines = append(lines, shorten(strings.TrimSpace(line), errorWide))
		}
	}
	return lines
}

// newest gives the last different ones, in their order.
func newest(found []string, most int, valid func(string) bool) []string {
	var out []string
	for _, word := range slices.Backward(found) {
		if len(out) < most && !slices.Contains(out, word) && (valid == nil || valid(word)) {
			out = append(out, word)
		}
	}
	slices.Reverse(out)
	return out
}

func sortedNames[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
