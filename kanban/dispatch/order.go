package dispatch

import (
	"slices"

	"gatewayd/kanban"
)

// queue is one board's cards that may start, in the order in which they are asked: by priority, and among cards of one
// priority by turns of their lanes, so that a lane with a hundred old cards leaves room for one with a single new card.
// Cards in review are a list of their own.
type queue struct {
	b      *board
	ready  []tier
	review []tier
}

// tier is the cards of one priority, by lane, each lane's oldest first.
type tier struct {
	priority int64
	lanes    []lineup
}

type lineup struct {
	lane  string
	cards []Candidate
}

func newQueue(b *board, cards []Candidate) *queue {
	q := &queue{b: b}
	for _, c := range cards {
		list := &q.ready
		if c.Review {
			list = &q.review
		}
		n := len(*list)
		if n == 0 || (*list)[n-1].priority != c.Priority {
			*list, n = append(*list, tier{priority: c.Priority}), n+1
		}
		(*list)[n-1].add(c)
	}
	return q
}

func (t *tier) add(c Candidate) {
	for i := range t.lanes {
		if t.lanes[i].lane == c.Assignee {
			t.lanes[i].cards = append(t.lanes[i].cards, c)
			return
		}
	}
	t.lanes = append(t.lanes, lineup{c.Assignee, []Candidate{c}})
}

func (q *queue) empty() bool { return len(q.ready) == 0 && len(q.review) == 0 }

// drop forgets all cards.
func (q *queue) drop() { q.ready, q.review = nil, nil }

// next takes the card that is asked next. A card for review goes first while no reviewer runs: so the review lane has a
// place whenever both have work, and no place is kept empty for it.
func (q *queue) next(running map[string]int, reviewers int) Candidate {
	list := &q.ready
	if len(q.ready) == 0 || len(q.review) > 0 && reviewers == 0 {
		list = &q.review
	}
	return pop(list, running)
}

// pop takes the oldest card of the lane with the fewest workers, of the highest priority there is.
func pop(list *[]tier, running map[string]int) Candidate {
	t := &(*list)[0]
	best := 0
	for i, l := range t.lanes {
		if running[l.lane] < running[t.lanes[best].lane] {
			best = i
		}
	}
	c := t.lanes[best].cards[0]
	if t.lanes[best].cards = t.lanes[best].cards[1:]; len(t.lanes[best].cards) == 0 {
		t.lanes = slices.Delete(t.lanes, best, best+1)
	}
	if len(t.lanes) == 0 {
		*list = (*list)[1:]
	}
	return c
}

// fairest is the board whose turn it is: a board on which a review waits while no reviewer runs, else the one with the
// fewest workers; of equals the first of the list, which begins with another board each tick.
func fairest(queues []*queue, running map[kanban.Slug]int, reviewers int) *queue {
	var best *queue
	for _, q := range queues {
		switch {
		case q.empty():
		case best == nil:
			best = q
		case reviewers == 0 && (len(q.review) > 0) != (len(best.review) > 0):
			if len(q.review) > 0 {
				best = q
			}
		case running[q.b.slug] < running[best.b.slug]:
			best = q
		}
	}
	return best
}
