package gateway

import (
	"encoding/json"
	"fmt"
	"strings"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
)

const (
	maxCallID   = 128
	maxCallName = 64    // what servers accept
	maxSaid     = 4_096 // of arguments that cannot be sent again, for people
)

// planned is one call of an answer, as it will be stored and run.
type planned struct {
	stored storedCall
	name   string // the name as the model wrote it
	args   string // the arguments as the model wrote them
	usable bool   // a known tool and a whole JSON object
	cut    bool   // the answer's length limit came in the middle of its arguments
	twin   int    // index of an identical call before it, or -1; twins share one run
}

// plan makes the calls of an answer fit to be stored, sent again and run. It is pure: the same answer gives the same calls. Ids
// become unique within the answer, names and arguments become what every server accepts; nothing is mended for execution.
func plan(calls []provider.ToolCall, turn string, round int, tools *tool.Set) []planned {
	out := make([]planned, 0, len(calls))
	ids, first := map[string]bool{}, map[string]int{}
	for i, call := range calls {
		if call.ID == "" || len(call.ID) > maxCallID || ids[call.ID] {
			call.ID = fmt.Sprintf("call_%s_%d_%d", strings.TrimPrefix(turn, "turn_"), round, i)
		}
		ids[call.ID] = true
		p := planned{name: call.Name, args: call.Arguments, usable: call.Complete() && known(tools, call.Name), twin: -1}
		p.stored = storeCall(call, intentOf(tools, call))
		key := call.Name + "\x00" + call.Arguments
		if j, ok := first[key]; ok {
			p.twin = j
		} else {
			first[key] = i
		}
		out = append(out, p)
	}
	return out
}

func intentOf(tools *tool.Set, call provider.ToolCall) string {
	if tools.ReadOnly(call.Name, json.RawMessage(call.Arguments)) {
		return intentNone
	}
	return intentPossible
}

func known(tools *tool.Set, name string) bool {
	for _, n := range tools.Names() {
		if n == name {
			return true
		}
	}
	return false
}

// storeCall gives the stored form. Arguments that are no object are kept for people in Said and go out as an empty object: many
// servers refuse a whole conversation for one of them.
func storeCall(call provider.ToolCall, intent string) storedCall {
	s := storedCall{ID: call.ID, Type: "function", Function: storedFunction{Name: wireName(call.Name), Arguments: call.Arguments}, Intent: intent}
	if !call.Complete() {
		s.Function.Arguments = "{}"
		s.Said = strings.ToValidUTF8(call.Arguments[:min(len(call.Arguments), maxSaid)], "\uFFFD")
	}
	return s
}

// wireName gives a name every server accepts.
func wireName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), maxCallName)]
}

func marshalCalls(calls []storedCall) json.RawMessage {
	raw, err := json.Marshal(calls)
	if err != nil {
		panic("gateway: calls are strings and always marshal: " + err.Error())
	}
	return raw
}
