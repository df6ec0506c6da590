package kanban

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// field is one key of a payload; a payload keeps the order in which it was written down.
type field struct {
	key   string
	value any
}

type payload []field

// encode gives the text of a JSON column as Python's json.dumps writes it with ensure_ascii off: separators ", " and
// ": ", text as it is. A Hermes process compares such texts and people grep them, so ours look alike. Nothing to say is
// "", which the callers store as NULL.
func (p payload) encode() (string, error) {
	if len(p) == 0 {
		return "", nil
	}
	b := []byte{'{'}
	var err error
	for i, f := range p {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(appendJSONString(b, f.key), ": "...)
		if b, err = appendJSON(b, f.value, 0); err != nil {
			return "", fmt.Errorf("encode %s: %w", f.key, err)
		}
	}
	return string(append(b, '}')), nil
}

// say adds what a person wrote, if it is anything.
func (p payload) say(key, words string) payload {
	if words = clean(strings.TrimSpace(words)); words != "" {
		p = append(p, field{key, words})
	}
	return p
}

// encodeMap is encode for a map: keys in order, so that equal maps are equal texts.
func encodeMap(m map[string]any) (string, error) {
	return sortedPayload(m).encode()
}

func sortedPayload(m map[string]any) payload {
	p := make(payload, 0, len(m))
	for _, k := range sortedKeys(m) {
		p = append(p, field{k, m[k]})
	}
	return p
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// maxDepth is where nesting is refused: a reader in Python gives up at about a thousand levels.
const maxDepth = 200

func appendJSON(b []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return b, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendJSONString(b, v), nil
	case Status:
		return appendJSONString(b, string(v)), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case RunID:
		return strconv.AppendInt(b, int64(v), 10), nil
	case *int64:
		if v == nil {
			return append(b, "null"...), nil
		}
		return strconv.AppendInt(b, *v, 10), nil
	case *string:
		if v == nil {
			return append(b, "null"...), nil
		}
		return appendJSONString(b, *v), nil
	case float64:
		return appendFloat(b, v)
	case []string:
		return appendList(b, v, depth)
	case []any:
		return appendList(b, v, depth)
	case map[string]any:
		return appendMap(b, v, depth)
	}
	return appendOther(b, v, depth)
}

// appendOther takes every other Go value through encoding/json once, with its numbers kept to the digit.
func appendOther(b []byte, v any, depth int) ([]byte, error) {
	if n, ok := v.(json.Number); ok {
		if text := []byte(n); len(text) > 0 && text[0] != '"' && json.Valid(text) {
			return append(b, n...), nil
		}
		return b, fmt.Errorf("not a number: %q", string(n))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return b, err
	}
	plain, err := decodeExact(text)
	if err != nil {
		return b, err
	}
	return appendJSON(b, plain, depth+1)
}

func appendList[T any](b []byte, list []T, depth int) ([]byte, error) {
	b = append(b, '[')
	var err error
	for i, v := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		if b, err = appendJSON(b, v, depth+1); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendMap(b []byte, m map[string]any, depth int) ([]byte, error) {
	b = append(b, '{')
	var err error
	for i, k := range sortedKeys(m) {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(appendJSONString(b, k), ": "...)
		if b, err = appendJSON(b, m[k], depth+1); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// appendFloat writes a whole number without a fraction: encoding/json decodes every number to float64, and a 3 that a
// worker sent must not come back as 3.0.
func appendFloat(b []byte, f float64) ([]byte, error) {
	const exact = 1 << 53
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return b, fmt.Errorf("%v has no JSON form", f)
	case f == math.Trunc(f) && math.Abs(f) < exact && !(f == 0 && math.Signbit(f)):
		return strconv.AppendInt(b, int64(f), 10), nil
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64), nil
}

const hexDigits = "0123456789abcdef"

func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		b = appendJSONRune(b, r)
	}
	return append(b, '"')
}

func appendJSONRune(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	}
	if r < 0x20 {
		return append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(b, r)
}

// encodeSkills is the skills column: a list with everything beyond ASCII escaped, as Python's default is. None is NULL.
func encodeSkills(skills []string) (string, error) {
	if len(skills) == 0 {
		return "", nil
	}
	text, err := appendJSON(nil, skills, 0)
	if err != nil {
		return "", err
	}
	return string(escapeASCII(text)), nil
}

func escapeASCII(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// decodeSkills reads either form; text that is no list of strings is no skills.
func decodeSkills(text string) []string {
	var list []string
	if text == "" || json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	return list
}

// decodeExact decodes JSON with numbers kept as written.
func decodeExact(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// decodeLoose reads the strings of a JSON list and passes over everything else.
func decodeLoose(text string) []string {
	var list []any
	if text == "" || json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	var found []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			found = append(found, s)
		}
	}
	return found
}
