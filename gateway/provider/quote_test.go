package provider

import (
	"encoding/json"
	"strings"
	"testing"
)

// Texts are written as encoding/json writes them: what was sent once is sent in the same bytes for ever.
func FuzzTextsAreWrittenAsTheStandardLibraryDoes(f *testing.F) {
	for _, s := range []string{
		"", "plain", `a "quoted" \ path`, "line\nline\r\ttab\b\f", "\x00\x1f\x7f", "ümlaut 漢字 😀", "half \xed\xa0\x80 broken \xff\xfe", "\u2028 \u2029 \ufffd", "<a href='&'>",
		strings.Repeat("x", 300) + "\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var ours body
		ours.text(s)
		var theirs strings.Builder
		encoder := json.NewEncoder(&theirs)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(s); err != nil {
			t.Fatal(err)
		}
		if got, want := ours.String()+"\n", theirs.String(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	})
}
