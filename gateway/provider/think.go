package provider

import (
	"encoding/json"
	"strings"

	"gatewayd/internal/mutation"
)

// Servers without a reader for their model's thoughts send them as text between these, at the very beginning of an answer. Elsewhere they are
// text like any other.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// thinkTags takes thoughts in tags out of an answer's text while it arrives. The zero value is at the beginning.
type thinkTags struct {
	at   thinkPlace
	held string // what may be a part of a tag
}

type thinkPlace int

const (
	beforeThought thinkPlace = iota
	inThought
	afterThought // what separates it from the answer is no part of either
	pastThought
)

// split gives what is said and what is thought of the next piece.
func (t *thinkTags) split(text string) (said, thought string) {
	if t.at == pastThought || text == "" || mutation.On("thoughts-in-tags-are-text") {
		return text, ""
	}
	text, t.held = t.held+text, ""
	if t.at == beforeThought {
		start := strings.TrimLeft(text, " \r\n\t")
		switch {
		case strings.HasPrefix(start, thinkOpen):
			t.at, text = inThought, start[len(thinkOpen):]
		case strings.HasPrefix(thinkOpen, start):
			t.held = text
			return "", ""
		default:
			t.at = pastThought
			return text, ""
		}
	}
	if t.at == inThought {
		before, after, closed := strings.Cut(text, thinkClose)
		if !closed {
			n := overlap(text, thinkClose)
			t.held = text[len(text)-n:]
			return "", text[:len(text)-n]
		}
		t.at, thought, text = afterThought, before, after
	}
	if said = strings.TrimLeft(text, " \r\n\t"); said != "" {
		t.at = pastThought
	}
	return said, thought
}

// rest gives what was held back at the end of an answer. The beginning of a tag that does not go on is what it looks like.
func (t *thinkTags) rest() (said string) {
	if t.at == beforeThought {
		said = t.held
	}
	t.held = ""
	return said
}

// overlap is how many bytes at the end of the text may begin the tag.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}

// looseParts reads a content: text, or a list in which thoughts may stand beside it.
func looseParts(raw json.RawMessage) (said, thought string) {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return rawText(raw), ""
	}
	for _, part := range parts {
		fields := looseObject(part)
		switch looseText(fields["type"]) {
		case "thinking", "reasoning":
			thought += looseThoughts(part)
		default:
			said += rawText(json.RawMessage("[" + string(part) + "]"))
		}
	}
	return said, thought
}

// looseThoughts reads a text, or the pieces of a list under any of the names that they have.
func looseThoughts(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var b strings.Builder
	for _, part := range looseList(raw) {
		fields := looseObject(part)
		for _, name := range []string{"text", "summary", "thinking", "reasoning"} {
			b.WriteString(looseText(fields[name]))
		}
	}
	return b.String()
}
