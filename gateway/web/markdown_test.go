package web

import (
	"strings"
	"testing"
)

// Nothing that a model says becomes markup of the page, and nothing of it is lost.
func TestAnAnswerIsTextWhateverItSays(t *testing.T) {
	for _, c := range []struct{ answer, want, never string }{
		{"<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;", "<script"},
		{"a <b onclick=x>word</b>", "a &lt;b onclick=x&gt;word&lt;/b&gt;", "<b"},
		{"<div>\n\n**bold**\n\n</div>", "<strong>bold</strong>", "<div>"},
		{"see <https://x.example/>", `rel="noreferrer nofollow"`, "<https"},
		{"[x](javascript:alert(1))", ">x</a>", "javascript:"},
		{"[x](JaVaScRiPt:alert(1))", ">x</a>", "alert"},
		{`[x](data:text/html,<script>)`, "x", "data:text"},
		{`[x](https://a.example "on<load")`, `title="on&lt;load"`, "on<load"},
		{"![who](https://spy.example/p.png)", `<a href="https://spy.example/p.png" rel="noreferrer nofollow" target="_blank">who</a>`, "<img"},
		{"https://a.example/x?y=1&z=2", `rel="noreferrer nofollow"`, "onerror"},
		{"```<img src=x>\n<i>\n```", "<figcaption>&lt;img</figcaption>", "<i>"},
		{"# Title", "<h3>Title</h3>", "<h1"},
		{"a `<b>` c", "<code>&lt;b&gt;</code>", "<b>"},
		{"&lt;b&gt; &amp;", "&lt;b&gt; &amp;", "<b>"},
		{"|a|b|\n|-|-|\n|<u>|2|", "<td>&lt;u&gt;</td>", "<u>"},
	} {
		got := string(markdown(c.answer))
		if !strings.Contains(got, c.want) || strings.Contains(got, c.never) {
			t.Errorf("%q gives %q; want %q in it, never %q", c.answer, got, c.want, c.never)
		}
	}
}

func TestALongAnswerIsShownWhole(t *testing.T) {
	got := string(markdown(strings.Repeat("<x> ", maxMarkdown)))
	if strings.Count(got, "&lt;x&gt;") != maxMarkdown {
		t.Errorf("%d of %d words are left", strings.Count(got, "&lt;x&gt;"), maxMarkdown)
	}
}

func FuzzAnAnswerHoldsNoMarkupOfItsOwn(f *testing.F) {
	for _, seed := range []string{"<a href=x>", "![a](b)", "```\n<", "[a]: <x>\n[a]", "<!-- -->", "&#60;script>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		got := strings.ToLower(string(markdown(answer)))
		for _, tag := range []string{"<script", "<img", "<iframe", "<style", "<svg", "<object", "<form", "<!--", "javascript:"} {
			if strings.Contains(strings.ReplaceAll(got, "&lt;", ""), tag) && tag != "javascript:" {
				t.Errorf("%q gives %q", answer, got)
			}
		}
	})
}
