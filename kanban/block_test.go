package kanban

import (
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

func TestBlockParksUntilAPersonUnblocks(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	run := b.mustClaim(t, card.ID)
	if err := b.Block(t.Context(), card.ID, Block{Run: &run, Reason: " which colour? ", Kind: BlockNeedsInput}); err != nil {
		t.Fatal(err)
	}
	row := b.runs(t, card.ID)[0]
	if row.Outcome != OutcomeBlocked || row.Status != "blocked" || row.Summary != "which colour?" {
		t.Errorf("run: %+v", row)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'blocked'`); p != `{"reason": "which colour?", "kind": "needs_input", "recurrences": 1}` {
		t.Errorf("payload: %s", p)
	}
	if moved, err := b.Promote(t.Context()); err != nil || len(moved) != 0 {
		t.Errorf("promotion moved %v, %v", moved, err)
	}
	b.wantStatus(t, card.ID, StatusBlocked)
	if err := b.Unblock(t.Context(), card.ID, ""); err != nil {
		t.Fatal(err)
	}
	if got := b.scalar(t, `SELECT payload IS NULL FROM task_events WHERE kind = 'unblocked'`); got != "1" {
		t.Error("an unblock with nothing to say has a payload")
	}
	b.wantStatus(t, card.ID, StatusReady)
	b.invariants(t)
}

func TestTheReasonOfABlockIsARemarkOfWhoSaysIt(t *testing.T) {
	b := newBoard(t)
	said := func(card string) string {
		return b.scalar(t, `SELECT COALESCE(group_concat(author || ': ' || body), '') FROM task_comments WHERE task_id = '`+card+`'`)
	}
	for want, do := range map[string]func(card string) error{
		"ann: which one?": func(card string) error { return b.Block(t.Context(), card, Block{Reason: "which one?", By: "ann"}) },
		"":                func(card string) error { return b.Block(t.Context(), card, Block{Reason: "which one?"}) },
		"bob: too early": func(card string) error {
			_, err := b.Move(t.Context(), card, StatusBlocked, Movement{Reason: "too early", Actor: "bob"})
			return err
		},
	} {
		card := b.make(t, NewTask{})
		if err := do(card.ID); err != nil || said(card.ID) != want {
			t.Errorf("%q: %q, %v", want, said(card.ID), err)
		}
		wantErr(t, b.Block(t.Context(), card.ID, Block{Reason: "again", By: "eve"}), ErrConflict)
		if said(card.ID) != want {
			t.Errorf("a refused block left a remark: %q", said(card.ID))
		}
	}
}

func TestWhatPromotingWouldDoIsSaidAndNotDone(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{})
	card := b.make(t, NewTask{Parents: []string{parent.ID}})
	before := b.kinds(t, card.ID)
	_, err := b.WouldPromote(t.Context(), card.ID, false)
	wantErr(t, err, ErrParentsOpen)
	would, err := b.WouldPromote(t.Context(), card.ID, true)
	if err != nil || would.To != StatusReady || !slices.Equal(would.Unlinked, []string{parent.ID}) {
		t.Errorf("%+v, %v", would, err)
	}
	b.wantStatus(t, card.ID, StatusTodo)
	if after := b.kinds(t, card.ID); !slices.Equal(after, before) {
		t.Errorf("the history went on: %v", after)
	}
	_, err = b.WouldPromote(t.Context(), parent.ID, true)
	wantErr(t, err, ErrConflict)
}

// Over HTTP a key is one request's; a board's own rule answers the card whatever the words are.
func TestAnIdempotencyKeyIsOfOneRequest(t *testing.T) {
	b := newBoard(t)
	ask := NewTask{Title: "A title", Assignee: "dev", IdempotencyKey: "k", OneRequest: true, CreatedBy: "ann"}
	first, err := b.Create(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	title := "edited since"
	if err := b.Edit(t.Context(), first.ID, Edit{Title: &title}); err != nil {
		t.Fatal(err)
	}
	ask.Assignee, ask.CreatedBy = "@Dev", "bob"
	if again, err := b.Create(t.Context(), ask); err != nil || again.ID != first.ID {
		t.Errorf("the same request made %s, %v", again.ID, err)
	}
	ask.Body, ask.OneRequest = "something else", false
	if again, err := b.Create(t.Context(), ask); err != nil || again.ID != first.ID {
		t.Errorf("other words made %s, %v", again.ID, err)
	}
	ask.OneRequest = true
	_, err = b.Create(t.Context(), ask)
	wantErr(t, err, ErrConflict)
	if !strings.Contains(err.Error(), `"k"`) || b.scalar(t, `SELECT count(*) FROM tasks`) != "1" {
		t.Errorf("the conflict does not name the key, or left a card: %v", err)
	}
}

func TestSameKindOfBlockTwiceStaysBlockedAndIsReported(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	for i, kind := range []string{BlockTransient, BlockTransient, BlockCapability} {
		if err := b.Block(t.Context(), card.ID, Block{Reason: "r", Kind: kind}); err != nil {
			t.Fatal(err)
		}
		b.wantStatus(t, card.ID, StatusBlocked)
		if found := slices.Contains(b.kinds(t, card.ID), "block_loop_detected"); found != (i >= 1) {
			t.Errorf("block %d: loop reported: %v", i, found)
		}
		if got := b.get(t, card.ID); got.BlockKind != kind || got.BlockRecurrences != []int64{1, 2, 1}[i] {
			t.Errorf("block %d: %s, %d", i, got.BlockKind, got.BlockRecurrences)
		}
		if err := b.Unblock(t.Context(), card.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	if p := b.lastPayload(t, card.ID, "block_loop_detected"); p["recurrences"] != 2.0 || p["limit"] != 2.0 {
		t.Errorf("payload: %v", p)
	}
}

func TestDependencyWaitsForParentsOrForAPerson(t *testing.T) {
	b := newBoard(t)
	parent, card := b.make(t, NewTask{}), b.make(t, NewTask{})
	run := b.mustClaim(t, card.ID)
	if err := b.LinkAs(t.Context(), parent.ID, card.ID, run); err != nil {
		t.Fatal(err)
	}
	if err := b.Block(t.Context(), card.ID, Block{Run: &run, Reason: "first that", Kind: BlockDependency}); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, card.ID, StatusTodo)
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'dependency_wait'`); p != `{"reason": "first that", "kind": "dependency"}` {
		t.Errorf("payload: %s", p)
	}
	if err := b.Complete(t.Context(), parent.ID, Completion{Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, card.ID, StatusReady)
	// Without an open parent it would come round for ever, each time paid for.
	run = b.mustClaim(t, card.ID)
	if err := b.Block(t.Context(), card.ID, Block{Run: &run, Reason: "still", Kind: BlockDependency}); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, card.ID, StatusBlocked)
	p := b.lastPayload(t, card.ID, EventBlocked)
	if p["kind"] != BlockNeedsInput || p["requested_kind"] != BlockDependency || p["rekind_reason"] == nil {
		t.Errorf("payload: %v", p)
	}
	b.invariants(t)
}

func TestBreakersBlockIsClassifiedInPlace(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	b.fail(t, card.ID, End{Outcome: OutcomeCrashed, Error: "x", Count: true, TripNow: true})
	if err := b.Block(t.Context(), card.ID, Block{Reason: "no GPU", Kind: BlockCapability}); err != nil {
		t.Fatal(err)
	}
	if p := b.lastPayload(t, card.ID, EventBlocked); p["classified_in_place"] != true || p["kind"] != BlockCapability {
		t.Errorf("payload: %v", p)
	}
	wantErr(t, b.Block(t.Context(), card.ID, Block{Reason: "again", Kind: BlockTransient}), ErrConflict)
}

func TestBlockRefusals(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{GoalMode: true})
	for kind, ok := range map[string]bool{"": false, BlockCapability: false, "whim": false} {
		if err := b.Block(t.Context(), card.ID, Block{Kind: kind}); problem.Is(err, problem.Invalid) == ok {
			t.Errorf("goal card, kind %q: %v", kind, err)
		}
	}
	done := b.make(t, NewTask{})
	if err := b.Archive(t.Context(), done.ID); err != nil {
		t.Fatal(err)
	}
	wantErr(t, b.Block(t.Context(), done.ID, Block{Reason: "r"}), ErrConflict)
	wantErr(t, b.Unblock(t.Context(), done.ID, ""), ErrConflict)
	wantErr(t, b.Archive(t.Context(), done.ID), ErrConflict)
}

func TestCardCreatedBlockedStaysBlocked(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{InitialStatus: StatusBlocked})
	if p := b.lastPayload(t, card.ID, EventBlocked); p["reason"] != "initial_status" {
		t.Errorf("payload: %v", p)
	}
	if moved, err := b.Promote(t.Context()); err != nil || len(moved) != 0 {
		t.Errorf("promoted %v, %v", moved, err)
	}
}

func TestUnblockWithOpenParentsWaits(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{})
	card := b.make(t, NewTask{Parents: []string{parent.ID}, InitialStatus: StatusBlocked})
	if err := b.Unblock(t.Context(), card.ID, "go"); err != nil {
		t.Fatal(err)
	}
	b.wantStatus(t, card.ID, StatusTodo)
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'unblocked'`); p != `{"status": "todo", "reason": "go"}` {
		t.Errorf("payload: %s", p)
	}
}

func TestArchiveClosesTheRunAndLetsChildrenGo(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{})
	child := b.make(t, NewTask{Parents: []string{parent.ID}})
	run := b.mustClaim(t, parent.ID)
	if err := b.Spawned(t.Context(), parent.ID, run, 4, "f", "k"); err != nil {
		t.Fatal(err)
	}
	if err := b.Archive(t.Context(), parent.ID); err != nil {
		t.Fatal(err)
	}
	if got := b.runs(t, parent.ID)[0]; got.Outcome != OutcomeReclaimed || got.WorkerPID != 4 {
		t.Errorf("run: %+v", got)
	}
	b.wantStatus(t, child.ID, StatusReady)
	if keepers, err := b.Keepers(t.Context()); err != nil || len(keepers) != 1 || keepers[0].Current {
		t.Errorf("the worker of an archived card is not left to the dispatcher: %+v, %v", keepers, err)
	}
	b.invariants(t)
}
