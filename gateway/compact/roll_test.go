package compact

import (
	"fmt"
	"strings"
	"testing"
)

func never(string) bool { return false }

// After each turn the oldest exchange goes into the notes, whose earlier form goes with it, and what was asked is joined to one
// row. The step that follows is read from the rows alone.
func TestARollingCompactionFoldsOneExchangeAtATime(t *testing.T) {
	rules := Default()
	rules.ProtectLast, rules.TargetRatio = 4, 0.1
	b := small(rules, 64_000)
	k := &talk{}
	var got []string
	for n := 1; n <= 6; n++ {
		k.exchange(fmt.Sprint(n), 1700)
		if f, some := rules.Roll(k.rows, b, never); some {
			before := k.id
			k.rows = apply(t, k.rows, f.Plan(fmt.Sprint("S", n)))
			k.id = before + 100
			whole(t, k.rows)
			got = append(got, shape(k.rows))
		}
	}
	want := []string{
		"1Q call 1T 1A 2Q rolling(S4) 3Q call 3T 3A 4Q call 4T 4A",
		"1Q call 1T 1A asked(2Q|3Q) rolling(S5) 4Q call 4T 4A 5Q call 5T 5A",
		"1Q call 1T 1A asked(2Q|3Q|4Q) rolling(S6) 5Q call 5T 5A 6Q call 6T 6A",
	}
	same(t, "folds", strings.Join(got, "\n"), strings.Join(want, "\n"))
	same(t, "turns", Turns(k.rows), 6)
}

// An exchange that is left alone parts the notes: those before it are not touched again.
func TestASkippedExchangeIsLeftWhereItIs(t *testing.T) {
	rules := Default()
	rules.ProtectLast, rules.ProtectFirst = 4, 0
	b := small(rules, 20_000)
	k := &talk{}
	for n := 1; n <= 5; n++ {
		k.exchange(fmt.Sprint(n), 1700)
	}
	second := Key(k.rows[4])
	skip := func(key string) bool { return key == second }
	for n := range 3 {
		f, some := rules.Roll(k.rows, b, skip)
		if !some {
			break
		}
		k.rows = apply(t, k.rows, f.Plan(fmt.Sprint("S", n)))
		whole(t, k.rows)
	}
	same(t, "rows", shape(k.rows), "1Q rolling(S0) 2Q call 2T 2A asked(3Q|4Q) rolling(S2) 5Q call 5T 5A")
}

// Exchanges too small to be worth a call of a model wait until there are enough of them, and a full compaction's notes stay.
func TestSmallExchangesAreFoldedTogether(t *testing.T) {
	rules := Default()
	rules.ProtectLast, rules.ProtectFirst = 2, 0
	b := small(rules, 10_000)
	k := &talk{}
	k.add(notesAsRow("FULL"))
	for n := 1; n <= 4; n++ {
		k.exchange(fmt.Sprint(n), 150)
	}
	k.exchange("5", 2000)
	f, some := rules.Roll(k.rows, b, never)
	if !some {
		t.Fatal("nothing is folded")
	}
	same(t, "folded", shape(f.Folded()), "1Q call 1T 1A 2Q call 2T 2A 3Q call 3T 3A")
	if f, some = rules.Roll(k.rows[:5], b, never); some {
		t.Errorf("%s is folded", shape(f.Folded()))
	}
}

// Notes that have become long are written anew in their place.
func TestLongNotesAreWrittenAnew(t *testing.T) {
	rules := Default()
	rules.ProtectLast, rules.ProtectFirst = 4, 0
	b := small(rules, 64_000)
	k := (&talk{}).exchange("1", 8000).exchange("2", 8000)
	f, _ := rules.Roll(k.rows, b, never)
	k.rows = apply(t, k.rows, f.Plan(strings.Repeat("long notes ", 1000)))
	f, some := rules.Defrag(k.rows, b, never)
	if !some {
		t.Fatal("they are not")
	}
	if p := f.Prompt(""); !strings.Contains(p.User, "long notes") || strings.Contains(p.User, recordBegin) {
		t.Errorf("asked: %.200s", p.User)
	}
	k.rows = apply(t, k.rows, f.Plan("short"))
	whole(t, k.rows)
	same(t, "rows", shape(k.rows), "1Q rolling(short) 2Q call 2T 2A")
	if _, some = rules.Defrag(k.rows, b, never); some {
		t.Error("short notes are written anew")
	}
}

// A long conversation in which rolling compaction is switched on is caught up with in few steps, each of which a summariser can be shown;
// then one exchange at a time goes on.
func TestALongConversationIsCaughtUpWithInFewSteps(t *testing.T) {
	rules := Default()
	rules.ProtectLast, rules.ProtectFirst = 4, 0
	b := small(rules, 400_000)
	k := &talk{}
	for n := range 1000 {
		k.exchange(fmt.Sprint(n), 900)
	}
	written, steps := 0, 0
	for ; steps < 50 && len(k.rows) > rollBehind+50; steps++ {
		f, some := rules.Roll(k.rows, b, never)
		if !some {
			t.Fatal("nothing is folded any more")
		}
		if size := Size(f.Folded()); size > b.Aux {
			t.Errorf("a step of %d tokens, and the summariser holds %d", size, b.Aux)
		}
		plan := f.Plan("notes")
		k.rows, written = apply(t, k.rows, plan), written+len(plan.Rows)
	}
	whole(t, k.rows)
	if steps > 10 || written > 15_000 {
		t.Errorf("%d steps wrote %d rows for 4000", steps, written)
	}
	f, _ := rules.Roll(k.rows, b, never)
	same(t, "then", len(f.Folded()), 2+4)
}
