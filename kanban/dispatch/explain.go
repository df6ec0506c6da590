package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gatewayd/internal/mutation"
	"gatewayd/kanban"
)

// Why is the answer to "why is this card not running?".
type Why struct {
	Board  kanban.Slug   `json:"board"`
	Task   string        `json:"task"`
	Status kanban.Status `json:"status,omitempty"`
	Holds  []Hold        `json:"holds"` // the first gate first
}

// CardFacts are what a board says about one card.
type CardFacts struct {
	Board       kanban.Slug
	Card        kanban.Task
	OpenParents []string
	Block       Word // the newest block or give-up
	Entered     int64
	Candidate   Candidate
	Pause       *kanban.Pause // of the board
	Timer       *kanban.Timer // of a scheduled card; nil = none is set
}

// Word is an event's reason and when it was said.
type Word struct {
	Text string
	At   int64
}

// Facts reads them. It works without a dispatcher.
func Facts(ctx context.Context, b *kanban.Board, task string) (CardFacts, error) {
	detail, err := b.Show(ctx, task)
	if err != nil {
		return CardFacts{}, err
	}
	pause, err := b.Paused(ctx)
	if err != nil {
		return CardFacts{}, err
	}
	f := CardFacts{Pause: pause, Board: b.Slug(), Card: detail.Task, Entered: detail.Task.CreatedAt}
	for _, id := range detail.Parents {
		parent, err := b.Task(ctx, id)
		if err == nil && !parent.Status.Satisfied() {
			f.OpenParents = append(f.OpenParents, fmt.Sprintf("%s (%s)", id, parent.Status))
		}
	}
	f.Candidate = candidateOf(b.Slug(), past(detail))
	if f.Card.Status == kanban.StatusScheduled {
		if f.Timer, err = timerOf(ctx, b, task); err != nil {
			return CardFacts{}, err
		}
	}
	for _, e := range detail.Events {
		switch e.Kind {
		case kanban.EventBlocked, kanban.EventGaveUp, "block_loop_detected":
			f.Block = Word{Text: reasonIn(e.Payload), At: e.CreatedAt}
		}
		switch e.Kind {
		case "commented", "attached", "edited", "reprioritized", "linked", "unlinked", "heartbeat", "respawn_guarded", "skipped_nonspawnable":
		default:
			f.Entered = e.CreatedAt
		}
	}
	return f, nil
}

func timerOf(ctx context.Context, b *kanban.Board, task string) (*kanban.Timer, error) {
	timers, err := b.Timers(ctx)
	for _, t := range timers {
		if t.Task == task {
			return &t, err
		}
	}
	return nil, err
}

// past makes of a card's whole history what the dispatcher's own list gives for ready cards.
func past(d kanban.Detail) kanban.Candidate {
	c := kanban.Candidate{Task: d.Task, Review: d.Task.Status == kanban.StatusReview}
	for _, r := range d.Runs {
		if !r.Open() {
			c.Closed = append([]kanban.Run{r}, c.Closed...)
		}
	}
	for _, e := range d.Events {
		switch e.Kind {
		case "status", "promoted", kanban.EventUnblocked, kanban.EventReclaimed:
			c.Moved = max(c.Moved, e.CreatedAt)
		}
	}
	return c
}

// reasonIn takes the words out of an event: a block has a reason, a give-up an error.
func reasonIn(payload json.RawMessage) string {
	var p struct {
		Reason string `json:"reason"`
		Error  string `json:"error"`
	}
	_ = json.Unmarshal(payload, &p) // foreign events may hold anything
	if p.Reason != "" {
		return p.Reason
	}
	return p.Error
}

// Explain says everything that keeps a card from running, the first gate first. It is a pure function: the CLI
// asks it without a daemon, with a Situation that says so.
func Explain(f CardFacts, s Situation) Why {
	why := Why{Board: f.Board, Task: f.Card.ID, Status: f.Card.Status}
	if hold := byStatus(f, s); hold != nil {
		if hold.Since == nil {
			hold.Since = at(f.Entered)
		}
		why.Holds = append(why.Holds, completed(*hold))
	}
	switch f.Card.Status {
	case kanban.StatusDone, kanban.StatusArchived, kanban.StatusRunning:
		return why
	}
	if f.Pause != nil {
		s.Boards = map[kanban.Slug]BoardState{f.Board: {Pause: f.Pause, Running: s.Boards[f.Board].Running, Most: s.Boards[f.Board].Most}}
	}
	for _, h := range Gates(f.Candidate, s) {
		if h.Since == nil { // not known better: it has stood here since then
			h.Since = at(f.Entered)
		}
		if mutation.On("why-hides-a-hold") && len(why.Holds) > 0 {
			break
		}
		why.Holds = append(why.Holds, completed(h))
	}
	if len(why.Holds) == 0 {
		why.Holds = []Hold{{Reason: NextTick, Detail: "nothing holds it; it starts with the next tick", Since: at(f.Entered)}}
		why.Holds[0] = completed(why.Holds[0])
	}
	return why
}

// Unreadable is the answer for a card of a board whose file cannot be used: that is what holds it, whatever it is.
func Unreadable(slug kanban.Slug, task string, err error) Why {
	reason, remedy := damageOf(err)
	return Why{Board: slug, Task: task, Holds: []Hold{completed(Hold{Reason: BoardDisabled, Detail: "its file " + reason, Remedy: remedy})}}
}

// byStatus: what the card's own status says.
func byStatus(f CardFacts, s Situation) *Hold {
	id := f.Card.ID
	switch f.Card.Status {
	case kanban.StatusReady, kanban.StatusReview:
		if f.Card.ClaimLock != "" {
			return &Hold{Reason: Claimed, Detail: "it carries the claim of " + f.Card.ClaimLock, Until: at(f.Card.ClaimExpires), Remedy: "the claim runs out by itself"}
		}
		return openParents(f)
	case kanban.StatusTodo:
		if h := openParents(f); h != nil {
			return h
		}
		return &Hold{Reason: ParentsOpen, Detail: "its parents are done; it becomes ready with the next tick", Remedy: "nothing"}
	case kanban.StatusTriage:
		return &Hold{Reason: Triage, Detail: "it is a rough idea", Remedy: "specify it: move it to todo or ready"}
	case kanban.StatusScheduled:
		return scheduled(f)
	case kanban.StatusBlocked:
		return &Hold{Reason: Blocked, Detail: blockText(f), Since: at(f.Block.At), Remedy: "settle what it waits for, then gatewayd kanban unblock " + id}
	case kanban.StatusRunning:
		return &Hold{Reason: Running, Detail: fmt.Sprintf("run %d has it, worker %d, claimed by %s", f.Card.CurrentRunID, f.Card.WorkerPID, f.Card.ClaimLock), Since: at(f.Card.StartedAt)}
	case kanban.StatusDone, kanban.StatusArchived:
		return &Hold{Reason: Ended, Detail: "it is " + string(f.Card.Status), Since: at(f.Card.CompletedAt)}
	}
	return &Hold{Reason: UnknownWord, Detail: fmt.Sprintf("its status %q is not known here", f.Card.Status), Remedy: "another program wrote it; ask there"}
}

// scheduled says when a card is due, and what happens then.
func scheduled(f CardFacts) *Hold {
	h := &Hold{Reason: Scheduled, Detail: "it is parked, and no time is set for it", Remedy: "gatewayd kanban unblock " + f.Card.ID}
	if f.Timer == nil || f.Timer.Due == 0 {
		return h
	}
	h.Until, h.Detail = at(f.Timer.Due), "it is parked until its time comes"
	h.Remedy = "wait, or gatewayd kanban unblock " + f.Card.ID
	if f.Timer.Rule != "" {
		h.Detail = "it is the pattern of cards that come back by the rule " + f.Timer.Rule + "; it is never started itself"
		if f.Timer.LastCopy != "" {
			h.Detail += "; its newest copy is " + f.Timer.LastCopy
		}
		h.Remedy = "wait for the next copy, or gatewayd kanban unblock " + f.Card.ID + " to run the pattern"
	}
	return h
}

func openParents(f CardFacts) *Hold {
	if len(f.OpenParents) == 0 {
		return nil
	}
	return &Hold{Reason: ParentsOpen, Detail: "waits for " + strings.Join(f.OpenParents, ", "), Remedy: "finish or archive them, or unlink"}
}

func blockText(f CardFacts) string {
	text := f.Block.Text
	if text == "" {
		text = f.Card.LastFailureError
	}
	if text == "" {
		text = "a person blocked it without a reason"
	}
	if f.Card.BlockKind != "" {
		text = f.Card.BlockKind + ": " + text
	}
	switch n := f.Card.ConsecutiveFailures; {
	case n == 1:
		text += " (1 failure)"
	case n > 1:
		text = fmt.Sprintf("%s (%d failures in a row)", text, n)
	}
	return text
}
