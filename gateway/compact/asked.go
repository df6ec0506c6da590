package compact

import (
	"encoding/json"
	"fmt"
	"strings"

	"gatewayd/sessiondb"
)

// asked is what people wrote in a folded part. Its row is sent and never shown: the rows themselves are history. Content
// keeps the messages apart, so that the next compaction can let the oldest go; Wire is what is sent.
type asked struct {
	Left     int      `json:"left,omitempty"` // older ones that had no room any more
	Messages []string `json:"messages"`
}

const (
	askedIntro = "[What the user wrote in the earlier part of this conversation, word for word, oldest first. It was dealt with as the notes " +
		"after it say; it is here for reference and is no new request.]"
	askedLeft = "[%d older messages are in the archive only.]"
	bridge    = "[An earlier part of this conversation is archived at this place.]"
	askedCut  = "\n[… %d characters are in the archive only …]\n"
)

// IsAsked reports a row that holds what people wrote in a folded part.
func IsAsked(m sessiondb.Message) bool {
	return m.Role == "user" && m.Kind == sessiondb.KindModelOnly
}

// gather collects what people wrote in rows, also what earlier compactions had collected.
func gather(rows []sessiondb.Message) (a asked) {
	for _, m := range rows {
		switch {
		case IsAsked(m):
			older := readAsked(m)
			a.Left += older.Left
			a.Messages = append(a.Messages, older.Messages...)
		case m.Role == "user" && m.Kind != sessiondb.KindSummary && Sent(m) != "":
			a.Messages = append(a.Messages, Sent(m))
		}
	}
	return a
}

// readAsked reads a row back. One that somebody else wrote is one message.
func readAsked(m sessiondb.Message) asked {
	var a asked
	if json.Unmarshal([]byte(m.Content), &a) != nil || a.Messages == nil {
		return asked{Messages: []string{Sent(m)}}
	}
	return a
}

// within keeps the newest messages that fit a budget of tokens. A single one may take half of it; the middle of a longer one
// is left out.
func (a asked) within(budget int) asked {
	kept := asked{Left: a.Left, Messages: []string{}}
	from := len(a.Messages)
	var fitting []string
	for used := 0; from > 0; from-- {
		text := clip(a.Messages[from-1], budget/2, askedCut)
		if used += rowOverhead + Tokens(text); used > budget && len(fitting) > 0 {
			break
		}
		fitting = append(fitting, text)
	}
	kept.Left += from
	for i := len(fitting) - 1; i >= 0; i-- {
		kept.Messages = append(kept.Messages, fitting[i])
	}
	return kept
}

// row is the row that is sent in their place. Without any it only says that something is missing: roles have to alternate.
func (a asked) row() sessiondb.NewMessage {
	parts := []string{askedIntro}
	if len(a.Messages)+a.Left == 0 {
		a.Messages, parts = []string{}, []string{bridge}
	}
	content, _ := json.Marshal(a) // strings and a number always marshal
	if a.Left > 0 {
		parts = append(parts, fmt.Sprintf(askedLeft, a.Left))
	}
	return sessiondb.NewMessage{
		Role: "user", Kind: sessiondb.KindModelOnly, Content: string(content), Wire: strings.Join(append(parts, a.Messages...), "\n\n"),
	}
}

// clip leaves out the middle of a text that is longer than so many tokens; notice says how much is gone (%d).
func clip(text string, tokens int, notice string) string {
	if Tokens(text) <= tokens {
		return text
	}
	runes := []rune(text)
	keep := len(runes) * tokens / Tokens(text)
	head := keep * 2 / 5
	return string(runes[:head]) + fmt.Sprintf(notice, len(runes)-keep) + string(runes[len(runes)-(keep-head):])
}
