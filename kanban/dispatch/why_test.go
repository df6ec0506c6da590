package dispatch

import (
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

func reasons(w Why) []Reason {
	var list []Reason
	for _, h := range w.Holds {
		list = append(list, h.Reason)
	}
	return list
}

func TestWhyNamesEveryReason(t *testing.T) {
	h := newHouse(t)
	h.config.MaxInProgress = 1
	h.config.Lanes["missing"] = config.Lane{Argv: []string{"/etc/passwd"}}
	h.config.Lanes["narrow"] = config.Lane{Argv: []string{"sleep", "600"}, MaxInProgress: 1}
	b := h.board(kanban.DefaultSlug)
	runner := card(t, b, "narrow", func(n *kanban.NewTask) { n.Priority = 9 })
	parent := card(t, b, "human")
	ids := map[Reason]string{
		Running:        runner,
		NoLane:         parent,
		LaneCap:        card(t, b, "narrow"),
		GlobalCap:      card(t, b, "ok"),
		Unassigned:     card(t, b, ""),
		ProgramMissing: card(t, b, "missing"),
		NoModel:        card(t, b, "agent"),
		ParentsOpen:    card(t, b, "ok", func(n *kanban.NewTask) { n.Parents = []string{parent} }),
		Triage:         card(t, b, "ok", func(n *kanban.NewTask) { n.Triage = true }),
		Blocked:        card(t, b, "ok", func(n *kanban.NewTask) { n.InitialStatus = kanban.StatusBlocked }),
		Scheduled:      card(t, b, "ok"),
		Ended:          card(t, b, "ok"),
		UnknownWord:    card(t, b, "ok"),
		Claimed:        card(t, b, "ok"),
		BlockerAuth:    card(t, b, "ok"),
		RecentSuccess:  card(t, b, "ok"),
	}
	set(t, b, `UPDATE tasks SET status = 'scheduled' WHERE id = ?`, ids[Scheduled])
	set(t, b, `UPDATE tasks SET status = 'archived' WHERE id = ?`, ids[Ended])
	set(t, b, `UPDATE tasks SET status = 'pondering' WHERE id = ?`, ids[UnknownWord])
	set(t, b, `UPDATE tasks SET claim_lock = 'elsewhere:1', claim_expires = 4000000000 WHERE id = ?`, ids[Claimed])
	now := time.Now().Unix()
	set(t, b, `UPDATE tasks SET last_failure_error = 'quota exceeded', started_at = 1 WHERE id = ?`, ids[BlockerAuth])
	set(t, b, `INSERT INTO task_runs (task_id, status, started_at, ended_at, outcome, error) VALUES (?, 'spawn_failed', ?, ?, 'spawn_failed', 'quota')`, ids[BlockerAuth], now, now)
	set(t, b, `UPDATE tasks SET started_at = 1 WHERE id = ?`, ids[RecentSuccess])
	set(t, b, `INSERT INTO task_runs (task_id, status, started_at, ended_at, outcome) VALUES (?, 'done', ?, ?, 'completed')`, ids[RecentSuccess], now, now)

	d := h.dispatcher()
	tickUntil(t, d, "the runner", isStatus(t, b, runner, kanban.StatusRunning))
	r, err := d.Tick(t.Context())
	must(t, err)
	for want, id := range ids {
		why, err := d.Why(t.Context(), kanban.DefaultSlug, id)
		must(t, err)
		first := why.Holds[0]
		if first.Reason != want || first.Detail == "" || first.Since == nil {
			t.Errorf("%s: first is %+v of %v", want, first, reasons(why))
		}
		if first.Remedy == "" && want != Running && want != Ended {
			t.Errorf("%s says nothing to do", want)
		}
	}
	for _, want := range []Reason{NoLane, LaneCap, GlobalCap, Unassigned, ProgramMissing, NoModel, BlockerAuth, RecentSuccess} {
		if r.Held[want] != 1 {
			t.Errorf("the report counts %d cards held by %s", r.Held[want], want)
		}
	}
	why, err := d.Why(t.Context(), kanban.DefaultSlug, ids[ProgramMissing])
	must(t, err)
	if hold := why.Holds[0]; hold.Detail != "lane missing: program /etc/passwd is not executable" || !strings.Contains(hold.Remedy, "chmod +x /etc/passwd") {
		t.Errorf("%+v", hold)
	}
	why, err = d.Why(t.Context(), kanban.DefaultSlug, ids[LaneCap])
	must(t, err)
	if got := reasons(why); len(got) != 2 || got[1] != GlobalCap {
		t.Errorf("not every gate is named: %v", got)
	}
	for _, id := range []string{ids[ProgramMissing], ids[NoModel]} {
		if task, err := b.Task(t.Context(), id); err != nil || task.ConsecutiveFailures != 0 || task.CurrentRunID != 0 {
			t.Errorf("a held card was tried: %+v %v", task, err)
		}
	}
	since, err := d.Why(t.Context(), kanban.DefaultSlug, ids[GlobalCap])
	must(t, err)
	_, err = d.Tick(t.Context())
	must(t, err)
	again, err := d.Why(t.Context(), kanban.DefaultSlug, ids[GlobalCap])
	must(t, err)
	if !since.Holds[0].Since.Equal(*again.Holds[0].Since) {
		t.Error("since when moved with the tick")
	}
	if _, err := d.Why(t.Context(), kanban.DefaultSlug, "t_none"); err == nil {
		t.Error("a card that does not exist has reasons")
	}
	if _, err := d.Why(t.Context(), "nowhere", "t_none"); err == nil {
		t.Error("a board that does not exist has reasons")
	}
}

func TestExplainWorksWithoutADaemon(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "codre")
	facts, err := Facts(t.Context(), b, id)
	must(t, err)
	d := h.dispatcher()
	s := d.situation(time.Now())
	s.Dispatcher = &Hold{Reason: NoDispatcher, Detail: "the daemon is not running", Remedy: "start it"}
	why := Explain(facts, s)
	if got := reasons(why); len(got) != 2 || got[0] != NoDispatcher || got[1] != NoLane {
		t.Errorf("%v", got)
	}
}

func TestABlockedCardCountsItsFailures(t *testing.T) {
	for failures, want := range map[int64]string{0: "no luck", 1: "no luck (1 failure)", 2: "no luck (2 failures in a row)"} {
		f := CardFacts{Card: kanban.Task{LastFailureError: "no luck", ConsecutiveFailures: failures}}
		if got := blockText(f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestADefaultAssigneeIsWrittenToTheCard(t *testing.T) {
	h := newHouse(t)
	h.config.DefaultAssignee = "ok"
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "")
	tickUntil(t, h.dispatcher(), "the card", isStatus(t, b, id, kanban.StatusDone))
	if task, err := b.Task(t.Context(), id); err != nil || task.Assignee != "ok" {
		t.Errorf("%q %v", task.Assignee, err)
	}
}

func TestAFullBoardLeavesRoomForASmallOne(t *testing.T) {
	h := newHouse(t)
	h.config.MaxInProgress = 4
	big, small := h.board("big"), h.board("small")
	for range 20 {
		card(t, big, "sleep", func(n *kanban.NewTask) { n.Priority = 100 })
	}
	for range 2 {
		card(t, small, "sleep")
	}
	d := h.dispatcher()
	d.turn = 1 // the big board's turn
	r, err := d.Tick(t.Context())
	must(t, err)
	by := map[kanban.Slug]int{}
	for _, s := range r.Spawned {
		by[s.Board]++
	}
	if by["big"] != 2 || by["small"] != 2 || r.Held[GlobalCap] != 18 {
		t.Errorf("started %v, held %v", by, r.Held)
	}
}

func TestAFreedPlaceIsTakenByAnotherBoard(t *testing.T) {
	h := newHouse(t)
	h.config.MaxInProgress = 1
	h.config.Interval = time.Hour
	one, two := h.board("one"), h.board("two")
	first := card(t, one, "sleep", func(n *kanban.NewTask) { n.MaxRuntimeSeconds = 1; n.MaxRetries = new(int64(1)) })
	d := h.dispatcher()
	_, err := d.Tick(t.Context())
	must(t, err)
	second := card(t, two, "ok")
	go func() { _ = d.Run(t.Context()) }()
	wait(t, "the second board's card", isStatus(t, two, second, kanban.StatusDone))
	if s := status(t, one, first); s != kanban.StatusBlocked {
		t.Errorf("the first card is %s", s)
	}
}

func TestABoardThatAnotherProcessWritesHoldsUpNoOther(t *testing.T) {
	h := newHouse(t)
	busy, free := h.board("busy"), h.board("free")
	card(t, busy, "ok")
	id := card(t, free, "ok")
	d := h.dispatcher(func(o *Options) { o.BoardPatience = 300 * time.Millisecond })
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- busy.File().Write(t.Context(), sqlite.Op{Label: "hold", Do: func(tx *sqlite.Tx) error {
			if _, err := tx.Exec(`UPDATE tasks SET priority = priority`); err != nil {
				return err
			}
			close(held)
			<-release
			return nil
		}})
	}()
	<-held
	let := sync.OnceFunc(func() { close(release) })
	t.Cleanup(let)
	r := tickUntil(t, d, "the free board's card", isStatus(t, free, id, kanban.StatusDone))
	if len(r.Failed) == 0 || boardStatus(t, d, "busy").State != "unavailable" {
		t.Errorf("%+v", boardStatus(t, d, "busy"))
	}
	let()
	must(t, <-done)
	tickUntil(t, d, "the busy board's card", func() bool { return strings.Contains(h.log.text(), "board is served again") })
}
