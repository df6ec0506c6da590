package hermes

import (
	"bytes"
	"encoding/json"
	"strings"
)

// encoded begins a content cell that holds JSON instead of the text itself.
const encoded = "\x00json:"

// decodeContent gives what a content cell says: the text, and whether something in it was no text (a picture, a file), in
// whose place stands a mark. What cannot be decoded is the text as it stands.
func decodeContent(cell string) (text string, parts int) {
	body, is := strings.CutPrefix(cell, encoded)
	if !is {
		return cell, 0
	}
	var s string
	if json.Unmarshal([]byte(body), &s) == nil && !isNull(body) {
		return s, 0
	}
	var list []json.RawMessage
	if json.Unmarshal([]byte(body), &list) == nil && !isNull(body) {
		return joinParts(list)
	}
	if json.Valid([]byte(body)) {
		return body, 0
	}
	return cell, 0
}

func isNull(body string) bool { return strings.TrimSpace(body) == "null" }

// joinParts gives the text parts of a message, one below the other.
func joinParts(list []json.RawMessage) (text string, other int) {
	var out []string
	for _, raw := range list {
		said, isText := partText(raw)
		if !isText {
			other++
		}
		if said != "" {
			out = append(out, said)
		}
	}
	return strings.Join(out, "\n"), other
}

func partText(raw json.RawMessage) (text string, isText bool) {
	if json.Unmarshal(raw, &text) == nil && text != "" {
		return text, true
	}
	var part struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	if json.Unmarshal(raw, &part) != nil {
		return string(raw), true
	}
	if json.Unmarshal(part.Text, &text) == nil && text != "" {
		return text, true
	}
	switch part.Type {
	case "text", "input_text", "output_text":
		return "", true
	case "":
		return string(raw), true
	}
	return "[" + strings.ReplaceAll(part.Type, "_url", "") + " not imported]", false
}

// callList gives tool calls as a JSON array, byte for byte where the cell holds one. An array that was encoded twice is
// unwrapped. What is no array is kept as a JSON string: everybody can read it and nobody takes it for calls.
func callList(cell string) (list string, ok bool) {
	for range 2 {
		trimmed := strings.TrimSpace(cell)
		if trimmed == "" || trimmed == "null" {
			return "", true
		}
		if strings.HasPrefix(trimmed, "[") && json.Valid([]byte(trimmed)) {
			if trimmed == "[]" {
				return "", true
			}
			return cell, true
		}
		var inner string
		if json.Unmarshal([]byte(trimmed), &inner) != nil || !strings.HasPrefix(strings.TrimSpace(inner), "[") {
			break
		}
		cell = inner
	}
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(cell) // a string always encodes
	return strings.TrimSpace(quoted.String()), false
}

// modelOnly reports a row that is sent to the model and never shown, by its display metadata. Metadata that was encoded
// twice is unwrapped.
func modelOnly(metadata string) bool {
	var inner string
	if json.Unmarshal([]byte(metadata), &inner) == nil {
		metadata = inner
	}
	var flags struct {
		ModelOnly  bool `json:"model_only"`
		ModelOnly2 bool `json:"modelOnly"`
	}
	return json.Unmarshal([]byte(metadata), &flags) == nil && (flags.ModelOnly || flags.ModelOnly2)
}
