package gateway

import (
	"strings"
	"testing"

	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
)

// What cannot be made smaller ends in words that say what to do, after a bounded number of requests; so does an overflow with
// compaction switched off.
func TestAConversationThatCannotGetSmallerSaysSo(t *testing.T) {
	refuses := func(fakellm.Request) fakellm.Response { return fakellm.Error{Status: 400, Message: tooLong} }
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
		auxes  int
		mains  int
	}{
		"nothing helps": {nil, "/new", 2, 4},
		"switched off":  {func(o *Options) { o.Compaction.Off = true }, "set compression.enabled", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFoldHouse(t, 100_000, c.change)
			f.fill(8, 1000)
			f.answers("ask", refuses)
			r := f.ask1(1)
			if r.Completed || !strings.Contains(r.Text, c.says) || r.Class != provider.ContextOverflow {
				t.Errorf("%+v", r)
			}
			if n, m := f.auxes(), len(f.llm.Main()); n > c.auxes || m > c.mains {
				t.Errorf("%d summaries and %d requests", n, m)
			}
			f.books(1)
		})
	}
}

// Where the prompt, the tools, one message or a picture alone is too large, that is said: a new conversation would fit no better. Nor is
// one offered alone where the summariser only had no room now.
func TestARequestThatNoNewConversationWouldFitSaysWhatIsTooLarge(t *testing.T) {
	tooLarge := fakellm.Error{Status: 413, Message: "Request Entity Too Large"}
	for name, c := range map[string]struct {
		system  string
		say     Say
		refusal fakellm.Error
		says    string
	}{
		"the prompt":           {strings.Repeat("be kind ", 4000), Say{Text: "hi"}, fakellm.Error{Status: 400, Message: tooLong}, "The prompt and the tools alone are about 80"},
		"a message":            {"", Say{Text: strings.Repeat("lorem ipsum ", 4000)}, fakellm.Error{Status: 400, Message: tooLong}, "One message alone is about 120"},
		"a crowded summariser": {"", Say{Text: "hi"}, fakellm.Error{Status: 400, Message: tooLong}, "send the message again later"},
		"a picture":            {"", Say{Text: "look", Images: []provider.Image{png(64)}}, tooLarge, "show smaller ones"},
		"bytes":                {"", Say{Text: "hi"}, tooLarge, "/new"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFoldHouse(t, 100_000, func(o *Options) { o.SystemPrompt = c.system })
			if name == "a crowded summariser" {
				f.fill(8, 1000)
				f.answers("aux", func(fakellm.Request) fakellm.Response { return fakellm.Error{Status: 529, Message: "overloaded"} })
			}
			f.answers("ask", func(fakellm.Request) fakellm.Response { return c.refusal })
			if r := f.say(c.say); r.Completed || !strings.Contains(r.Text, c.says) {
				t.Errorf("%.300s", r.Text)
			}
			if n := f.auxes(); n > 5 {
				t.Errorf("the summariser was asked %d times", n)
			}
		})
	}
}
