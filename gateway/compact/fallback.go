package compact

import (
	"fmt"
	"strings"

	"gatewayd/sessiondb"
)

// Fallback is a summary made without a model, from what can be read off the rows: what was called how often, the last words,
// and the earlier notes. It is poorer than a summary, and never wrong.
func (f Fold) Fallback(why string, redact func(string) string) string {
	folded := f.Folded()
	var b strings.Builder
	fmt.Fprintf(&b, "No summary could be written (%s). What can be said without one: %d messages were archived.", why, len(folded))
	if used := toolsUsed(folded); used != "" {
		b.WriteString(" Tools that were used: " + used + ".")
	}
	if old := earlier(folded); old != "" {
		b.WriteString("\n\nEarlier notes:\n" + clip(old, max(f.budget.summary(Size(folded)), 500), askedCut))
	}
	if last := lastWords(folded); last != "" {
		b.WriteString("\n\nThe last answer among them:\n" + shorten(last, 1200))
	}
	if redact == nil {
		return b.String()
	}
	return redact(b.String())
}

func toolsUsed(rows []sessiondb.Message) string {
	counts := map[string]int{}
	for _, m := range rows {
		for _, c := range callsOf(m) {
			counts[c.Function.Name]++
		}
	}
	var parts []string
	for _, name := range sortedNames(counts) {
		parts = append(parts, fmt.Sprintf("%s %dx", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// lastWords is the last answer that a person was given.
func lastWords(rows []sessiondb.Message) (text string) {
	for _, m := range rows {
		if m.Role == "assistant" && !isFolded(m) && len(callsOf(m)) == 0 && m.Content != "" {
			text = plain(m.Content)
		}
	}
	return text
}
