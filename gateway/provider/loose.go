package provider

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// The loose readers take a JSON value of any type and give what can be had from it. Servers that call themselves compatible send
// numbers as strings, content as part lists and objects where text belongs; such a value costs its field, never the chunk.

// looseText reads a string, or the text parts of a list; anything else is nothing.
func looseText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, part := range parts {
		if json.Unmarshal(part, &text) == nil {
			b.WriteString(text)
		} else if json.Unmarshal(looseObject(part)["text"], &text) == nil {
			b.WriteString(text)
		}
	}
	return b.String()
}

// looseInt reads a whole number written as a number or as a string. The second result is false for everything else.
func looseInt(raw json.RawMessage) (int64, bool) {
	text := strings.Trim(strings.TrimSpace(string(raw)), `"`)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// looseList reads a list; a single object counts as a list of one.
func looseList(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	if looseObject(raw) != nil {
		return []json.RawMessage{raw}
	}
	return nil
}

// looseObject reads an object's fields; nil for everything else.
func looseObject(raw json.RawMessage) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	return object
}
