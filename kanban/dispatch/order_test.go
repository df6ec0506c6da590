package dispatch

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"gatewayd/kanban"
)

func line(q *queue, running map[string]int, reviewers int) (order []string) {
	for !q.empty() {
		c := q.next(running, reviewers)
		running[c.Assignee]++
		if c.Review {
			reviewers++
		}
		order = append(order, c.Task)
	}
	return order
}

func TestCardsOfOnePriorityTakeTurnsByLane(t *testing.T) {
	cards := []Candidate{
		{Task: "first", Assignee: "a", Priority: 2},
		{Task: "a1", Assignee: "a"},
		{Task: "a2", Assignee: "a"},
		{Task: "a3", Assignee: "a"},
		{Task: "b1", Assignee: "b"},
		{Task: "r1", Assignee: "a", Review: true},
		{Task: "r2", Assignee: "a", Review: true},
	}
	got := fmt.Sprint(line(newQueue(&board{}, cards), map[string]int{}, 0))
	if want := "[r1 first b1 a1 a2 a3 r2]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := line(newQueue(&board{}, cards), map[string]int{"b": 9}, 1)[0]; got != "first" {
		t.Errorf("while somebody reviews, %s goes first", got)
	}
}

func TestTheBoardWithTheFewestWorkersIsNext(t *testing.T) {
	full := newQueue(&board{slug: "full"}, []Candidate{{Task: "x"}})
	free := newQueue(&board{slug: "free"}, []Candidate{{Task: "y"}})
	review := newQueue(&board{slug: "review"}, []Candidate{{Task: "z", Review: true}})
	none := newQueue(&board{slug: "none"}, nil)
	share := map[kanban.Slug]int{"full": 3, "review": 5, "free": 2}
	if q := fairest([]*queue{none, full, free}, share, 0); q != free {
		t.Errorf("%s", q.b.slug)
	}
	if q := fairest([]*queue{full, review, free}, share, 0); q != review {
		t.Errorf("nobody reviews, and %s goes first", q.b.slug)
	}
	if q := fairest([]*queue{full, review, free}, share, 1); q != free {
		t.Errorf("somebody reviews, and %s goes first", q.b.slug)
	}
	if q := fairest([]*queue{none}, share, 0); q != nil {
		t.Errorf("%s has no cards", q.b.slug)
	}
}

// Whatever there is: every card is asked once, no card before one of its lane that is older and no less urgent, and two
// lanes with cards of one priority never differ by more than one start.
func TestAnyQueueIsWholeAndFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "cards")
		var cards []Candidate
		for i := range n {
			cards = append(cards, Candidate{
				Task: fmt.Sprint(i), Assignee: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "lane"), Priority: int64(3 - i*4/max(n, 1)),
			})
		}
		q, seen, running := newQueue(&board{}, cards), map[string]bool{}, map[string]int{}
		last := map[string]int{}
		for !q.empty() {
			waiting := map[string]bool{}
			for _, l := range q.ready[0].lanes {
				waiting[l.lane] = true
			}
			c := q.next(running, 0)
			for lane := range waiting {
				if running[c.Assignee] > running[lane] {
					t.Fatalf("%s has %d workers and goes before %s with %d", c.Assignee, running[c.Assignee], lane, running[lane])
				}
			}
			var number int
			fmt.Sscan(c.Task, &number)
			if before, ok := last[c.Assignee]; seen[c.Task] || ok && before > number {
				t.Fatalf("card %s after %d", c.Task, before)
			}
			seen[c.Task], last[c.Assignee] = true, number
			running[c.Assignee]++
		}
		if len(seen) != n {
			t.Fatalf("%d of %d cards", len(seen), n)
		}
	})
}
