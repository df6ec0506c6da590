package compact

import (
	"fmt"
	"strings"
	"testing"

	"gatewayd/sessiondb"

	"pgregory.net/rapid"
)

// What is folded becomes what people wrote and notes about it; the beginning, the end and the message that is being worked on
// stay as they are.
func TestTheMiddleIsFolded(t *testing.T) {
	rules := Default()
	rules.ProtectLast = 4
	long := &talk{}
	for _, tag := range []string{"1", "2", "3", "4", "5"} {
		long.exchange(tag, 500)
	}
	one := (&talk{}).user("1Q")
	for range 12 {
		one.call(strings.Repeat("out ", 400), 2)
	}
	prior := (&talk{}).exchange("1", 300).user("2Q")
	for range 8 {
		prior.call(strings.Repeat("out ", 400), 1)
	}
	for name, c := range map[string]struct {
		rows   []sessiondb.Message
		choice Choice
		want   string
	}{
		"as the rules say":    {long.rows, Choice{}, "1Q call 1T asked(2Q|3Q|4Q) notes(S) 5Q call 5T 5A"},
		"here":                {long.rows, Choice{Here: 2}, "asked(1Q|2Q|3Q) notes(S) 4Q call 4T 4A 5Q call 5T 5A"},
		"one long turn":       {one.rows, Choice{Squeeze: true}, "1Q call out out notes(S) asked() call out out"},
		"a turn that is long": {prior.rows, Choice{Squeeze: true}, "1Q call 1T notes(S) 2Q call out"},
	} {
		f, some := rules.Choose(c.rows, small(rules, 4000), c.choice)
		if !some {
			t.Errorf("%s: nothing is folded", name)
			continue
		}
		got := apply(t, c.rows, f.Plan("S"))
		whole(t, got)
		same(t, name, shape(got), c.want)
	}
}

// Choosing again on what a compaction left finds nothing new: it is a fixed point and no loop.
func TestWhatWasFoldedIsNotFoldedAgain(t *testing.T) {
	rules := Default()
	rules.ProtectLast = 4
	long := &talk{}
	for i := range 9 {
		long.exchange(fmt.Sprint(i), 300)
	}
	b := small(rules, 4000)
	f, _ := rules.Choose(long.rows, b, Choice{})
	once := apply(t, long.rows, f.Plan("S"))
	if f, some := rules.Choose(once, b, Choice{}); some {
		t.Errorf("it folds %s of %s", shape(f.Folded()), shape(once))
	}
}

// A plan is refused where the conversation would be no smaller.
func TestAPlanThatGrowsSaysSo(t *testing.T) {
	rules := Default()
	rules.ProtectLast, rules.ProtectFirst = 4, 0
	short := (&talk{}).user("1Q").answer("1A").exchange("2", 10)
	f, some := rules.Choose(short.rows, small(rules, 100_000), Choice{Here: 1})
	if !some {
		t.Fatal("nothing is folded")
	}
	if p := f.Plan("a summary of nothing much"); !p.Grows() {
		t.Errorf("%d tokens became %d", p.Before, p.After)
	}
}

// Whatever a conversation looks like: a plan leaves a whole transcript, everything that a person wrote is in it once while there
// is room, a second compaction goes on from the first, and no loop comes about.
func TestEveryPlanLeavesAWholeConversation(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rules := Default()
		rules.ProtectFirst = rapid.IntRange(0, 5).Draw(r, "first")
		rules.ProtectLast = rapid.IntRange(0, 12).Draw(r, "last")
		rules.MinTailUser = rapid.IntRange(0, 3).Draw(r, "users")
		rules.Legacy = rapid.Bool().Draw(r, "legacy")
		b := small(rules, rapid.SampledFrom([]int{2000, 6000, 30_000}).Draw(r, "window"))
		b.Asked = 1 << 20
		k := anyTalk(r)
		for round := range 3 {
			before := k.rows
			said := saidIn(k.rows)
			c := Choice{Squeeze: rapid.Bool().Draw(r, "squeeze"), Here: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(r, "here")}
			f, some := rules.Choose(k.rows, b, c)
			if rapid.Bool().Draw(r, "roll") {
				f, some = rules.Roll(k.rows, b, func(string) bool { return false })
			}
			if some {
				k.rows = apply(r, k.rows, f.Plan(fmt.Sprintf("S%d", round)))
			}
			whole(r, k.rows)
			if got := saidIn(k.rows); got != said {
				r.Fatalf("what was asked changed from %s to %s:\n%s\n%s", said, got, shape(before), shape(k.rows))
			}
			k.id = k.rows[len(k.rows)-1].ID
			k.exchange(fmt.Sprintf("more%d", round), 300)
		}
	})
}

func anyTalk(r *rapid.T) *talk {
	k := &talk{}
	for i := range rapid.IntRange(1, 8).Draw(r, "exchanges") {
		k.user(fmt.Sprintf("u%dQ", i))
		for j := range rapid.IntRange(0, 4).Draw(r, "rounds") {
			k.call(strings.Repeat("x ", rapid.SampledFrom([]int{1, 100, 2000}).Draw(r, "size")), rapid.IntRange(1, 3).Draw(r, "calls"))
			if rapid.IntRange(0, 5).Draw(r, "steer") == 0 {
				k.add(sessiondb.Message{Role: "user", Kind: sessiondb.KindSteer, Content: fmt.Sprintf("s%d_%dQ", i, j)})
				k.answer("noted")
				k.add(sessiondb.Message{Role: "user", Kind: sessiondb.KindSteer, Content: fmt.Sprintf("t%d_%dQ", i, j)})
			}
		}
		k.answer(strings.Repeat("answer ", rapid.SampledFrom([]int{1, 300}).Draw(r, "length")))
	}
	return k
}

// saidIn is everything that people wrote, sorted, wherever it stands.
func saidIn(rows []sessiondb.Message) string {
	counts := map[string]int{}
	for _, m := range rows {
		if m.Role != "user" {
			continue
		}
		for _, text := range gather([]sessiondb.Message{m}).Messages {
			counts[text]++
		}
	}
	return fmt.Sprint(counts)
}

// Answers in the tail are cut where the rules say so, and only when something is folded; a cut one is no note and is not cut again.
func TestALongAnswerInTheTailIsShortened(t *testing.T) {
	rules := Default()
	rules.ProtectLast, rules.TailAnswer = 4, 100
	long := &talk{}
	for _, tag := range []string{"1", "2", "3", "4", "5"} {
		long.exchange(tag, 500)
	}
	b := small(rules, 4000)
	f, _ := rules.Choose(long.rows, b, Choice{})
	got := apply(t, long.rows, f.Plan("S"))
	whole(t, got)
	last := got[len(got)-1]
	if n := len([]rune(last.Content)); n > 200 || !strings.HasPrefix(last.Content, "5A word") || IsNotes(last) {
		t.Errorf("the last answer has %d characters: %+v", n, last)
	}
	if short, cut := (Fold{answer: 100}).shorten(last); cut {
		t.Errorf("it is cut again: %+v", short)
	}
}
