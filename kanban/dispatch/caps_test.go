package dispatch

import (
	"strings"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/kanban"
)

func TestPoolsAndBoardsHaveTheirOwnCaps(t *testing.T) {
	h := newHouse(t)
	h.config.MaxInProgress, h.config.MaxPerBoard = 0, 3
	h.config.Pools = map[string]int{"gpu": 1}
	for _, lane := range []string{"train", "infer"} {
		h.config.Lanes[lane] = config.Lane{Argv: []string{"sleep", "600"}, Pool: "gpu", KillGrace: time.Millisecond}
	}
	b, small := h.board(kanban.DefaultSlug), h.board("small")
	_, err := h.root.Update("small", kanban.MetaChange{MaxInProgress: new(1)})
	must(t, err)
	card(t, b, "train", func(n *kanban.NewTask) { n.Priority = 2 })
	second := card(t, b, "infer", func(n *kanban.NewTask) { n.Priority = 1 })
	for range 3 {
		card(t, b, "sleep")
		card(t, small, "sleep")
	}
	d := h.dispatcher()
	r, err := d.Tick(t.Context())
	must(t, err)
	by := map[kanban.Slug]int{}
	for _, s := range r.Spawned {
		by[s.Board]++
	}
	if by[kanban.DefaultSlug] != 3 || by["small"] != 1 || r.Held[BoardCap] != 3 || r.Held[PoolCap] != 1 {
		t.Errorf("started %v, held %v", by, r.Held)
	}
	why, err := d.Why(t.Context(), kanban.DefaultSlug, second)
	must(t, err)
	if got := reasons(why); len(got) != 2 || got[0] != PoolCap || got[1] != BoardCap || !strings.Contains(why.Holds[0].Detail, "gpu has 1 of 1") {
		t.Errorf("%+v", why.Holds)
	}
	s := d.Status()
	if len(s.Pools) != 1 || s.Pools[0] != (PoolStatus{"gpu", 1, 1}) || boardStatus(t, d, "small").Most != 1 {
		t.Errorf("%+v %+v", s.Pools, boardStatus(t, d, "small"))
	}
}

func TestTheReviewLaneHasAPlaceWhenBothHaveWork(t *testing.T) {
	h := newHouse(t)
	h.config.MaxInProgress = 2
	b := h.board(kanban.DefaultSlug)
	for range 4 {
		card(t, b, "sleep", func(n *kanban.NewTask) { n.Priority = 9 })
	}
	reviewed := card(t, b, "sleep")
	set(t, b, `UPDATE tasks SET status = 'review' WHERE id = ?`, reviewed)
	d := h.dispatcher()
	r, err := d.Tick(t.Context())
	must(t, err)
	if len(r.Spawned) != 2 || status(t, b, reviewed) != kanban.StatusRunning {
		t.Errorf("%d started, the review is %s", len(r.Spawned), status(t, b, reviewed))
	}
}

func TestReviewsAreLeftToPeopleWhereThatIsWanted(t *testing.T) {
	h := newHouse(t)
	h.config.ReviewDispatch = false
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "ok")
	set(t, b, `UPDATE tasks SET status = 'review' WHERE id = ?`, id)
	d := h.dispatcher()
	r, err := d.Tick(t.Context())
	must(t, err)
	why, err := d.Why(t.Context(), kanban.DefaultSlug, id)
	must(t, err)
	if len(r.Spawned) != 0 || why.Holds[0].Reason != ReviewOff {
		t.Errorf("%+v %+v", r.Spawned, why.Holds)
	}
}

func TestAPausedBoardStartsNothingUntilItIsResumed(t *testing.T) {
	h := newHouse(t)
	b, other := h.board(kanban.DefaultSlug), h.board("other")
	must(t, b.Pause(t.Context(), kanban.Pause{Mode: kanban.PauseStarts, Reason: "release day", By: "ann"}))
	id, free := card(t, b, "ok"), card(t, other, "ok")
	for range 2 { // a restart forgets nothing
		d := h.dispatcher()
		r := tickUntil(t, d, "the other board's card", isStatus(t, other, free, kanban.StatusDone))
		why, err := d.Why(t.Context(), kanban.DefaultSlug, id)
		must(t, err)
		first := why.Holds[0]
		if status(t, b, id) != kanban.StatusReady || first.Reason != BoardPaused || first.Since == nil ||
			first.Detail != "the board is paused by ann: release day" || !strings.Contains(first.Remedy, "resume") {
			t.Errorf("card %s, %+v", status(t, b, id), first)
		}
		if s := boardStatus(t, d, kanban.DefaultSlug); s.State != "paused" || s.Pause == nil || s.Pause.By != "ann" || s.Hold == nil || len(r.Failed) > 0 {
			t.Errorf("%+v", s)
		}
		d.close()
	}
	must(t, b.Resume(t.Context(), "ann"))
	tickUntil(t, h.dispatcher(), "the card", isStatus(t, b, id, kanban.StatusDone))
}

func TestAScheduledCardWakesAtItsTimeAndNotWithTheNextTick(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.config.Interval = time.Hour
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "ok")
	due := time.Now().Add(2 * time.Second).Truncate(time.Second)
	_, err := b.Schedule(t.Context(), id, kanban.Schedule{Due: due})
	must(t, err)
	d := h.dispatcher()
	go func() { _ = d.Run(t.Context()) }()
	wait(t, "the card", isStatus(t, b, id, kanban.StatusDone))
	if early := time.Until(due); early > 0 {
		t.Errorf("it woke %v early", early)
	}
}

func TestAPullRequestInACommentHoldsACardOnlyWhereThatIsWanted(t *testing.T) {
	h := newHouse(t)
	h.config.ActivePRGuard = true
	b := h.board(kanban.DefaultSlug)
	id, handed := card(t, b, "ok"), card(t, b, "fail")
	for _, c := range []string{id, handed} {
		_, err := b.Comment(t.Context(), c, "dev", "see https://github.com/o/r/pull/12 please")
		must(t, err)
	}
	set(t, b, `UPDATE task_comments SET created_at = created_at - 100 WHERE task_id = ?`, handed)
	must(t, b.Assign(t.Context(), handed, "ok"))
	d := h.dispatcher()
	tickUntil(t, d, "the card that was handed on", isStatus(t, b, handed, kanban.StatusDone))
	r, err := d.Tick(t.Context())
	must(t, err)
	if status(t, b, id) != kanban.StatusReady || r.Held[ActivePR] != 1 || events(t, b, id, "respawn_guarded") != 1 {
		t.Fatalf("card %s, held %v", status(t, b, id), r.Held)
	}
	must(t, b.AuthorizeExistingPR(t.Context(), id, "ann"))
	tickUntil(t, d, "the card", isStatus(t, b, id, kanban.StatusDone))
	if n := events(t, b, id, "existing_pr_authorization_consumed"); n != 1 {
		t.Errorf("the permission was used %d times", n)
	}
}
