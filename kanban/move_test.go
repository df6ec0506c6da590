package kanban

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatewayd/internal/problem"
)

func timeText(sec int64) string { return strconv.FormatInt(sec, 10) }

func diffTasks(got, want Task) string { return cmp.Diff(want, got) }

// inStatus makes a card that stands where it should.
func (b *Board) inStatus(t *testing.T, s Status) string {
	t.Helper()
	card := b.make(t, NewTask{Assignee: "dev", Triage: s == StatusTriage}).ID
	var err error
	switch s {
	case StatusTriage, StatusReady:
	case StatusTodo:
		err = b.Link(t.Context(), b.make(t, NewTask{}).ID, card)
	case StatusScheduled:
		_, err = b.Schedule(t.Context(), card, Schedule{})
	case StatusRunning:
		b.mustClaim(t, card)
	case StatusBlocked:
		err = b.Block(t.Context(), card, Block{Reason: "r"})
	case StatusReview:
		err = b.RequestReview(t.Context(), card, Review{Summary: "s", Reviewer: "critic"})
	case StatusDone:
		err = b.Complete(t.Context(), card, Completion{Summary: "s"})
	case StatusArchived:
		err = b.Archive(t.Context(), card)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, card, s)
	return card
}

// The whole matrix: what is allowed happens with its verb's events, what is not changes nothing.
func TestMovesGoByTheMatrix(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	events := map[Status]map[Status][]string{
		StatusTriage:    {StatusTodo: {"status", "promoted"}, StatusReady: {"status"}},
		StatusTodo:      {StatusTriage: {"status"}, StatusScheduled: {"scheduled"}, StatusReady: nil},
		StatusScheduled: {StatusTriage: {"status"}, StatusTodo: {"status", "promoted"}, StatusReady: {"unblocked"}},
		StatusReady: {
			StatusTriage: {"status"}, StatusTodo: {"status", "promoted"}, StatusScheduled: {"scheduled"}, StatusBlocked: {"commented", "blocked"},
			StatusReview: {"review_requested"}, StatusDone: {"completed"},
		},
		StatusRunning: {
			StatusTriage: {"reclaimed", "status"}, StatusTodo: {"reclaimed", "status", "promoted"}, StatusScheduled: {"reclaimed", "status"},
			StatusReady: {"reclaimed", "status"}, StatusBlocked: {"commented", "blocked"}, StatusReview: {"reclaimed", "status"}, StatusDone: {"completed"},
		},
		StatusBlocked: {
			StatusTriage: {"status"}, StatusTodo: {"status", "promoted"}, StatusScheduled: {"scheduled"}, StatusReady: {"unblocked"},
			StatusDone: {"completed"},
		},
		StatusReview: {
			StatusTriage: {"assigned", "status"}, StatusTodo: {"assigned", "status", "promoted"}, StatusReady: {"assigned", "status"}, StatusDone: {"completed"},
		},
		StatusDone:     {StatusTriage: {"status"}, StatusTodo: {"status", "promoted"}, StatusReady: {"status"}},
		StatusArchived: {},
	}
	for _, from := range Statuses() {
		for _, to := range Statuses() {
			want, allowed := events[from][to]
			if to == StatusArchived && from != StatusArchived {
				want, allowed = []string{"archived"}, true
			}
			name := string(from) + " to " + string(to)
			card := b.inStatus(t, from)
			before, had := b.dump(t), len(b.kinds(t, card))
			got, err := b.Move(t.Context(), card, to, Movement{Reason: "why", Actor: "ann"})
			switch {
			case !allowed || want == nil:
				if !problem.Is(err, problem.Conflict) || b.dump(t) != before {
					t.Errorf("%s: %+v, %v, or it changed the board", name, got, err)
				}
				if slices.Contains(Moves(from), to) != allowed {
					t.Errorf("%s is offered", name)
				}
				continue
			case err != nil || !got.Now:
				t.Errorf("%s: %+v, %v", name, got, err)
				continue
			}
			if kinds := b.kinds(t, card)[had:]; !slices.Equal(kinds, want) {
				t.Errorf("%s wrote %v, want %v", name, kinds, want)
			}
			if end := b.get(t, card); end.Status != got.Status || end.Status != to && !(to == StatusTodo && end.Status == StatusReady) {
				t.Errorf("%s ended %s, it says %s", name, end.Status, got.Status)
			}
			if !slices.Contains(Moves(from), to) {
				t.Errorf("%s is not offered", name)
			}
		}
	}
	b.invariants(t)
}

func TestAMoveSaysWhereFromAndWhy(t *testing.T) {
	b := newBoard(t)
	card := b.inStatus(t, StatusDone)
	if _, err := b.Move(t.Context(), card, StatusReady, Movement{Reason: "again", Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'status'`); p != `{"status": "ready", "from": "done", "reason": "again", "actor": "ann"}` {
		t.Errorf("payload: %s", p)
	}
	if got := b.get(t, card); got.CompletedAt != 0 {
		t.Error("a card that is open again has an end")
	}
}

func TestAnUnknownStatusIsKeptAndLeadsOnlyToTheArchive(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{}).ID
	b.sql(t, `UPDATE tasks SET status = 'cancelled' WHERE id = ?`, card)
	for name, try := range map[string]func() error{
		"move":     func() error { _, err := b.Move(t.Context(), card, StatusReady, Movement{}); return err },
		"schedule": func() error { _, err := b.Schedule(t.Context(), card, Schedule{}); return err },
		"specify":  func() error { return b.Specify(t.Context(), card, Specification{}) },
		"review":   func() error { return b.RequestReview(t.Context(), card, Review{}) },
		"reopen":   func() error { return b.ReopenReview(t.Context(), card, "") },
		"promote":  func() error { return b.PromoteByHand(t.Context(), card, "", "", true) },
		"unblock":  func() error { return b.Unblock(t.Context(), card, "") },
	} {
		if err := try(); !problem.Is(err, problem.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.Edit(t.Context(), card, Edit{Title: new("other")}); err != nil {
		t.Error(err)
	}
	b.wantStatus(t, card, "cancelled")
	if _, err := b.Move(t.Context(), card, StatusArchived, Movement{}); err != nil {
		t.Error(err)
	}
}

func TestReopeningACardPutsBackWhatWasBuiltOnIt(t *testing.T) {
	b := newBoard(t)
	root := b.inStatus(t, StatusDone)
	chain := func(title string, parents ...string) string {
		return b.make(t, NewTask{Title: title, Assignee: "dev", Parents: parents}).ID
	}
	done := chain("done", root)
	for _, id := range []string{done} {
		if err := b.Complete(t.Context(), id, Completion{Summary: "s"}); err != nil {
			t.Fatal(err)
		}
	}
	ready, running, review, blocked := chain("ready", done), chain("running", done), chain("review", done), chain("blocked", done)
	w := b.withWorker(t, running, Claimer{})
	if err := b.RequestReview(t.Context(), review, Review{Summary: "s", Reviewer: "critic"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Block(t.Context(), blocked, Block{Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	archived := chain("archived", done)
	below := chain("below the archived one", archived)
	if err := b.Archive(t.Context(), archived); err != nil {
		t.Fatal(err)
	}
	other := b.inStatus(t, StatusDone)

	got, err := b.Move(t.Context(), root, StatusTodo, Movement{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{done, ready, running, review}; got.Status != StatusReady || !sameSet(got.Descendants, want) || got.Descendants[0] != done {
		t.Errorf("%+v, want %v", got, want)
	}
	for _, id := range []string{done, ready, running, review} {
		b.wantStatus(t, id, StatusTodo)
		if p := b.lastPayload(t, id, "descendant_invalidated"); p["ancestor"] != root {
			t.Errorf("payload: %v", p)
		}
		kinds := b.kinds(t, id)
		if !slices.Equal(kinds[len(kinds)-3:], []string{"commented", "descendant_invalidated", "status"}) {
			t.Errorf("events: %v", kinds)
		}
	}
	for id, want := range map[string]Status{blocked: StatusBlocked, archived: StatusArchived, below: StatusReady, other: StatusDone} {
		b.wantStatus(t, id, want)
	}
	if got := b.get(t, review).Assignee; got != "dev" {
		t.Errorf("what was in review is now %q's", got)
	}
	if stops := b.mustStops(t); len(stops) != 1 || stops[0].Run != w.run {
		t.Errorf("the worker lives on: %+v", stops)
	}
	err = b.Complete(t.Context(), running, Completion{Run: &w.run, Summary: "s"})
	wantErr(t, err, ErrStaleRun)
	b.invariants(t)
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}
