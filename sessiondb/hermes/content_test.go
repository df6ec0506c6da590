package hermes

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestContentIsDecoded(t *testing.T) {
	for _, c := range []struct {
		cell, text string
		parts      int
	}{
		{"plain", "plain", 0},
		{"", "", 0},
		{encoded + `"a string that begins so"`, "a string that begins so", 0},
		{encoded + `[{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]`, "one\ntwo", 0},
		{encoded + `[{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:"}}]`, "look\n[image not imported]", 1},
		{encoded + `["said", 7]`, "said\n7", 0},
		{encoded + `{"a": 1}`, `{"a": 1}`, 0},
		{encoded + `[{`, encoded + `[{`, 0},
		{encoded + `null`, `null`, 0},
		{encoded + `[]`, ``, 0},
	} {
		if text, parts := decodeContent(c.cell); text != c.text || parts != c.parts {
			t.Errorf("%q: got %q, %d; want %q, %d", c.cell, text, parts, c.text, c.parts)
		}
	}
}

func TestCallsAreAnArrayOrKeptAsText(t *testing.T) {
	for _, c := range []struct {
		cell, list string
		ok         bool
	}{
		{"", "", true},
		{"null", "", true},
		{"[]", "", true},
		{`[ {"id": "c"} ]`, `[ {"id": "c"} ]`, true},
		{`"[{\"id\":\"c\"}]"`, `[{"id":"c"}]`, true},
		{`[{"id":`, `"[{\"id\":"`, false},
		{`{"id":"c"}`, `"{\"id\":\"c\"}"`, false},
	} {
		if list, ok := callList(c.cell); list != c.list || ok != c.ok {
			t.Errorf("%q: got %q, %t; want %q, %t", c.cell, list, ok, c.list, c.ok)
		}
	}
}

func TestParentsComeFirst(t *testing.T) {
	got := parentsFirst([]string{"c", "b", "a", "x", "y"}, map[string]string{"c": "b", "b": "a", "a": "", "x": "y", "y": "x"})
	if text := strings.Join(got, " "); text != "a b c x y" {
		t.Errorf("got %s", text)
	}
}

// Whatever a cell holds, decoding it ends, loses no plain text, and gives valid text and valid JSON.
func FuzzCells(f *testing.F) {
	f.Add("plain")
	f.Add(encoded + `[{"type": "text", "text": "look"}]`)
	f.Add(`[{"id": "c1"}]`)
	f.Fuzz(func(t *testing.T, cell string) {
		cell = strings.ToValidUTF8(cell, "\uFFFD")
		text, _ := decodeContent(cell)
		if !utf8.ValidString(text) || (!strings.HasPrefix(cell, encoded) && text != cell) {
			t.Errorf("%q became %q", cell, text)
		}
		if list, _ := callList(cell); list != "" && !json.Valid([]byte(list)) {
			t.Errorf("%q became %q, which is no JSON", cell, list)
		}
		modelOnly(cell)
	})
}
