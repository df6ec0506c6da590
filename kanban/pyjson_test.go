package kanban

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPayloadLooksLikePythons(t *testing.T) {
	for want, p := range map[string]payload{
		`{"assignee": null, "status": "ready", "parents": [], "tenant": "t", "skills": ["a", "b"]}`: {
			{"assignee", opt("")}, {"status", StatusReady}, {"parents", []string{}}, {"tenant", opt("t")}, {"skills", []string{"a", "b"}},
		},
		`{"reason": "ünïcode ✓ \"q\" \\ \n\u0001", "n": 3, "f": 1.5, "b": true}`: {{"reason", "ünïcode ✓ \"q\" \\ \n\x01"}, {"n", 3}, {"f", 1.5}, {"b", true}},
		`{"at": 1795953314, "big": 1e+22}`:                                       {{"at", 1795953314.0}, {"big", 1e22}},
		`{"m": {"a": [1, {"x": null}], "b": 10000000000000000000}}`: {
			{"m", map[string]any{"b": json.Number("10000000000000000000"), "a": []any{1.0, map[string]any{"x": nil}}}},
		},
		"":                        nil,
		`{"x": {"A": [1]}}`:       {{"x", struct{ A []uint8 }{[]uint8{1}}}},
		`{"bad": "\ufffd\ufffd"}`: {{"bad", "\xff\xfe"}},
	} {
		got, err := p.encode()
		want = strings.ReplaceAll(want, `\ufffd`, "\ufffd")
		if strings.HasPrefix(want, `{"x"`) {
			want = `{"x": {"A": "AQ=="}}`
		}
		if err != nil || got != want {
			t.Errorf("encode gave %s, %v; want %s", got, err, want)
		}
	}
}

func TestPayloadRefusesWhatIsNoJSON(t *testing.T) {
	deep := any(1)
	for range maxDepth + 5 {
		deep = []any{deep}
	}
	for _, v := range []any{math.NaN(), math.Inf(1), json.Number("x"), json.Number(`"s"`), deep, func() {}} {
		if text, err := (payload{{"v", v}}).encode(); err == nil {
			t.Errorf("encode took %T: %.80s", v, text)
		}
	}
}

func TestSkillsAreASCII(t *testing.T) {
	text, err := encodeSkills([]string{"é", "a\u007f", "😀"})
	if err != nil || text != `["\u00e9", "a\u007f", "\ud83d\ude00"]` {
		t.Fatalf("encodeSkills = %s, %v", text, err)
	}
	if got := decodeSkills(text); !reflect.DeepEqual(got, []string{"é", "a\u007f", "😀"}) {
		t.Errorf("decodeSkills = %q", got)
	}
	if got := decodeSkills("not json"); got != nil {
		t.Errorf("decodeSkills of damage = %q", got)
	}
}

// FuzzEncode: whatever JSON comes in, the column holds the same JSON, with Python's separators and valid UTF-8.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,-0.0,1e400,"x",null,true,{"b":{}}]}`, `{"k":"\u0000\ud800\"\\"}`, `{"":9007199254740993}`, `{"a":1e22}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		v, err := decodeExact([]byte(in))
		m, ok := v.(map[string]any)
		if err != nil || !ok {
			return
		}
		text, err := encodeMap(m)
		if err != nil {
			return // too deep
		}
		if len(m) == 0 {
			if text != "" {
				t.Errorf("an empty object is %q, want NULL", text)
			}
			return
		}
		if !utf8.ValidString(text) {
			t.Errorf("%q is not UTF-8", text)
		}
		back, err := decodeExact([]byte(text))
		if err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("%q became %q: %v", in, text, err)
		}
		if again, err := encodeMap(back.(map[string]any)); err != nil || again != text {
			t.Errorf("encoding twice gives %q, then %q (%v)", text, again, err)
		}
	})
}
