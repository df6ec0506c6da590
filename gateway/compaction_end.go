package gateway

import (
	"fmt"
	"slices"

	"gatewayd/gateway/compact"
	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

const (
	deadEnd = "this conversation no longer fits the model and cannot be made smaller: start a new one with /new; nothing of it is lost"
	noGain  = "Summarising does not make this conversation smaller any more: /new starts a new one, and nothing of this one is lost."
)

// cramped says what takes most of the room where a conversation does not fit, and what helps, when that is not the conversation's
// length: a new one would fit no better. "" when it is. fixed is the tokens of a request beside its rows.
func cramped(window, fixed int, rows []sessiondb.Message) string {
	all, largest := fixed, 0
	for _, m := range rows {
		n := compact.RowTokens(m)
		if all += n; m.Role == roleUser && !compact.IsAsked(m) {
			largest = max(largest, n)
		}
	}
	switch {
	case mutation.On("new-is-always-the-remedy"), all*2 < window: // the server counts otherwise than we do: nothing can be told from ours
	case fixed*2 >= all:
		return fmt.Sprintf("the prompt and the tools alone are about %d tokens, and the model holds %d: give its server a larger window (Ollama: num_ctx 65536; "+
			"llama.cpp: -c 65536; vLLM: --max-model-len 65536), or choose another model with /model", fixed, window)
	case largest*2 >= all:
		return fmt.Sprintf("one message alone is about %d tokens, and the model holds %d: take it back with /undo and say it in parts, or name a file that holds it", largest, window)
	}
	return ""
}

// endless is the remedy when nothing more can be let go of. busy is a summariser that had no room: later it may have.
func (t *turn) endless(class provider.Class, busy error) string {
	if class == provider.PayloadTooLarge && slices.ContainsFunc(t.rows, shows) {
		return "its pictures are more bytes than the server takes: take the message back with /undo and show smaller ones, or start a new conversation with /new"
	}
	if busy != nil {
		return "its summary could not be written (" + reason(busy) + "): send the message again later, or start a new conversation with /new; nothing of this one is lost"
	}
	if why := cramped(t.budget().Window, t.fixed(), t.rows); why != "" && class == provider.ContextOverflow {
		return why
	}
	return deadEnd
}

// shows reports a row with pictures.
func shows(m sessiondb.Message) bool {
	_, images := carried(m)
	return len(images) > 0
}

// fixed is the tokens of the turn's requests beside its rows.
func (t *turn) fixed() int { return overhead(t.system, t.offered()) }

// noGain tells whoever waits that compactions do not help any more, and what is left of the conversation to blame.
func (p *pass) noGain(rows []sessiondb.Message) {
	if why := cramped(p.budget.Window, p.fixed, rows); why != "" {
		p.say("Summarising does not help any more: " + why + ".")
		return
	}
	p.say(noGain)
}
