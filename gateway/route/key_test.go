package route

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gatewayd/internal/problem"
)

// ids as platforms have them, and as somebody has them who wants to get into another's conversation.
var anyID = rapid.OneOf(
	rapid.SampledFrom([]string{"", "1", "2", "12", "1:2", ":", "::", "%3A", "%", "%25", "a", "A", "dm", "group", "main", "agent", "@ann:example.org", "1%3A2", "-100", "é"}),
	rapid.StringMatching(`[a-zA-Z0-9:%@._-]{0,12}`),
)

var anyOrigin = rapid.Custom(func(t *rapid.T) Origin {
	return Origin{
		Profile: rapid.SampledFrom([]string{"", "main", "work", "main-2"}).Draw(t, "profile"), Platform: rapid.SampledFrom([]string{"telegram", "slack", "api"}).Draw(t, "platform"),
		Kind: rapid.SampledFrom([]string{"dm", "group", "channel"}).Draw(t, "kind"), Scope: anyID.Draw(t, "scope"), Chat: anyID.Draw(t, "chat"), Thread: anyID.Draw(t, "thread"), User: anyID.Draw(t, "user"),
	}
})

// shared is the origin without a person who is not looked at there.
func shared(o Origin, rules Rules) Origin {
	alone := o.Kind == "dm" || o.Thread != "" && rules.PersonThreads || o.Thread == "" && !rules.SharedGroups
	if !alone {
		o.User = ""
	}
	return o
}

func TestNoTwoPlacesMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := Rules{SharedGroups: rapid.Bool().Draw(t, "shared"), PersonThreads: rapid.Bool().Draw(t, "personal")}
		a, b := anyOrigin.Draw(t, "a"), anyOrigin.Draw(t, "b")
		if rapid.Bool().Draw(t, "near") { // two places that differ in one thing
			c := a
			field := rapid.SampledFrom([]func(*Origin) *string{
				func(o *Origin) *string { return &o.Profile }, func(o *Origin) *string { return &o.Platform }, func(o *Origin) *string { return &o.Kind },
				func(o *Origin) *string { return &o.Scope }, func(o *Origin) *string { return &o.Chat }, func(o *Origin) *string { return &o.Thread },
				func(o *Origin) *string { return &o.User },
			}).Draw(t, "field")
			*field(&c) = *field(&b)
			b = c
		}
		keyA, errA := a.Key(rules)
		keyB, errB := b.Key(rules)
		if errA != nil || errB != nil {
			return
		}
		if same := shared(a, rules) == shared(b, rules); same != (keyA == keyB) {
			t.Fatalf("%+v and %+v: %q and %q", a, b, keyA, keyB)
		}
		if strings.ContainsAny(keyA, "/\\\x00") || strings.Contains(keyA, "..") {
			t.Fatalf("%q could be a path", keyA)
		}
	})
}

func TestAKeyReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyOrigin.Draw(t, "origin")
		key, err := o.Key(Rules{PersonThreads: true})
		if err != nil {
			return
		}
		if got, err := Parse(key); err != nil || got != o {
			t.Fatalf("%q: %+v %v, want %+v", key, got, err, o)
		}
	})
}

func TestWhoSharesAConversation(t *testing.T) {
	group := Origin{Platform: "telegram", Kind: "group", Chat: "5", User: "ann"}
	key := func(o Origin, rules Rules, change func(*Origin)) string {
		change(&o)
		key, err := o.Key(rules)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	bob := func(o *Origin) { o.User = "bob" }
	same := func(*Origin) {}
	thread := func(o *Origin) { o.Thread = "7" }
	for name, meet := range map[string]bool{
		"people of a group":        key(group, Rules{}, same) == key(group, Rules{}, bob),
		"people of a thread apart": key(group, Rules{PersonThreads: true}, thread) == key(group, Rules{PersonThreads: true}, func(o *Origin) { thread(o); bob(o) }),
		"a thread and its group":   key(group, Rules{}, thread) == key(group, Rules{}, same),
		"a user and a thread":      key(Origin{Platform: "x", Kind: "group", Chat: "5"}, Rules{SharedGroups: true}, thread) == key(Origin{Platform: "x", Kind: "group", Chat: "5", User: "7"}, Rules{}, same),
		"main and the default one": key(group, Rules{}, func(o *Origin) { o.Profile = "main" }) == key(group, Rules{}, same),
	} {
		if meet {
			t.Errorf("%s meet", name)
		}
	}
	for name, meet := range map[string]bool{
		"people of a shared group": key(group, Rules{SharedGroups: true}, same) == key(group, Rules{SharedGroups: true}, bob),
		"people of a thread":       key(group, Rules{}, thread) == key(group, Rules{}, func(o *Origin) { thread(o); bob(o) }),
	} {
		if !meet {
			t.Errorf("%s do not meet", name)
		}
	}
	if got := key(group, Rules{}, same); got != "agent:main:telegram:group::5::ann" {
		t.Errorf("the key is %q", got)
	}
	if got := key(Origin{Platform: "telegram", Kind: "dm"}, Rules{}, same); got != "agent:main:telegram:dm" {
		t.Errorf("the only direct chat of a platform is %q", got)
	}
}

func TestAnIDThatCouldBeAPathIsRefusedByItsField(t *testing.T) {
	ok := Origin{Platform: "telegram", Kind: "dm", Chat: "5"}
	for field, change := range map[string]func(*Origin, string){
		"scope": func(o *Origin, v string) { o.Scope = v }, "chat": func(o *Origin, v string) { o.Chat = v },
		"thread": func(o *Origin, v string) { o.Thread = v }, "user": func(o *Origin, v string) { o.User = v },
	} {
		for _, bad := range []string{"a/b", `a\b`, "..", "a..b", "a\x00", "a\nb", "\xff", " a", "a\u2028b"} {
			o := ok
			change(&o, bad)
			_, err := o.Key(Rules{PersonThreads: true})
			if !problem.Is(err, problem.Invalid) || !strings.HasPrefix(err.Error(), field) {
				t.Errorf("%s %q: %v", field, bad, err)
			}
		}
	}
	for _, o := range []Origin{
		{Platform: "", Kind: "dm"},
		{Platform: "Telegram", Kind: "dm"},
		{Platform: "x", Kind: ""},
		{Platform: "x", Kind: "a:b"},
		{Profile: "main~", Platform: "x", Kind: "dm"},
		{Profile: "-x", Platform: "x", Kind: "dm"},
		{Profile: "a b", Platform: "x", Kind: "dm"},
		{Platform: "x", Kind: "dm", Chat: strings.Repeat("c", 300)},
	} {
		if key, err := o.Key(Rules{}); !problem.Is(err, problem.Invalid) {
			t.Errorf("%+v: %q %v", o, key, err)
		}
	}
	for _, key := range []string{"", "agent", "agent:main:x", "card:b:t:1", "agent:main:x:dm:", "agent:main:x:dm:a:b:c:d:e", "agent:main~~:x:dm", "agent:main:x:dm:%41"} {
		if o, err := Parse(key); err == nil {
			t.Errorf("%q is a key: %+v", key, o)
		}
	}
}
