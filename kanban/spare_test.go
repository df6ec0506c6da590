package kanban

import "testing"

func TestAFailureIsTakenBackOnceAndOnlyWhileItCounts(t *testing.T) {
	b := newBoard(t)
	ctx := t.Context()
	crash := func(id string) RunID {
		t.Helper()
		run := b.mustClaim(t, id)
		_, err := b.EndRun(ctx, End{Task: id, Run: run, Outcome: OutcomeCrashed, Count: true, Error: "no disk"})
		wantErr(t, err, nil)
		return run
	}
	expect := func(id string, want Status, failures int64) {
		t.Helper()
		if card := b.get(t, id); card.Status != want || card.ConsecutiveFailures != failures {
			t.Errorf("card is %s with %d failures, want %s with %d", card.Status, card.ConsecutiveFailures, want, failures)
		}
	}
	spare := func(id string, run RunID, want bool) {
		t.Helper()
		done, err := b.Spare(ctx, id, run, "the lane fails as a whole")
		if err != nil || done != want {
			t.Errorf("spared: %v, %v", done, err)
		}
	}

	tripped := b.make(t, NewTask{Assignee: "dev"}).ID
	first, second := crash(tripped), crash(tripped)
	expect(tripped, StatusBlocked, 2)
	spare(tripped, first, true)
	expect(tripped, StatusBlocked, 1) // not this one stopped it
	spare(tripped, first, false)
	spare(tripped, second, true)
	expect(tripped, StatusReady, 0)

	person := b.make(t, NewTask{Assignee: "dev"}).ID
	run := crash(person)
	wantErr(t, b.Block(ctx, person, Block{Reason: "let me see", Kind: BlockNeedsInput}), nil)
	spare(person, run, true)
	expect(person, StatusBlocked, 0) // a person stopped it

	fresh := b.make(t, NewTask{Assignee: "dev"}).ID
	run = crash(fresh)
	wantErr(t, b.Assign(ctx, fresh, "other"), nil)
	crash(fresh)
	spare(fresh, run, false) // what counts now is another failure
	expect(fresh, StatusReady, 1)
}
