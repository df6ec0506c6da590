package compact

import (
	"encoding/json"
	"unicode/utf8"

	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// rowOverhead is what a message costs beside its text: its role, its marks, the names of its fields.
const rowOverhead = 6

// Tokens estimates the tokens of a text without knowing the tokenizer: four bytes of ASCII are one, a letter of another
// alphabet is a half, an ideograph is one. It errs towards more, because too few would be found out by the server only.
func Tokens(text string) int {
	ascii, half, whole := 0, 0, 0
	for i := 0; i < len(text); {
		begin := i
		for i < len(text) && text[i] < utf8.RuneSelf {
			i++
		}
		if ascii += i - begin; i == len(text) {
			break
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r >= 0x1100 {
			whole++
		} else {
			half++
		}
		i += n
	}
	return (ascii+3)/4 + (half+1)/2 + whole
}

// RowTokens estimates what a row costs in a request.
func RowTokens(m sessiondb.Message) int {
	n := rowOverhead + Tokens(Sent(m)) + pictures(m)*provider.ImageTokens
	for _, c := range callsOf(m) {
		n += rowOverhead + Tokens(c.Function.Name) + Tokens(c.Function.Arguments)
	}
	return n
}

// Size estimates what rows cost in a request.
func Size(rows []sessiondb.Message) (n int) {
	for _, m := range rows {
		n += RowTokens(m)
	}
	return n
}

// Sent is the text that goes over the wire for a row; of pictures, their captions.
func Sent(m sessiondb.Message) string {
	if m.Wire != "" && pictures(m) == 0 {
		return m.Wire
	}
	return m.Content
}

func pictures(m sessiondb.Message) int {
	_, images, _ := provider.DecodeContent(m.Wire)
	return len(images)
}

func newTokens(m sessiondb.NewMessage) int {
	return RowTokens(sessiondb.Message{Content: m.Content, Wire: m.Wire, ToolCalls: m.ToolCalls})
}

// call is one entry of a row's tool_calls, as far as it matters here.
type call struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// callsOf reads a row's calls; what cannot be read counts as none, as it does when a request is made of the row.
func callsOf(m sessiondb.Message) []call {
	var calls []call
	if len(m.ToolCalls) == 0 || json.Unmarshal(m.ToolCalls, &calls) != nil {
		return nil
	}
	return calls
}
