package kanban

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func (b *Board) mustSchedule(t *testing.T, card string, s Schedule) Timer {
	t.Helper()
	timer, err := b.Schedule(t.Context(), card, s)
	if err != nil {
		t.Fatal(err)
	}
	return timer
}

func (b *Board) mustWake(t *testing.T, now time.Time) (woken []string, next time.Time) {
	t.Helper()
	woken, next, err := b.WakeDue(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return woken, next
}

func TestACardWakesAtItsTime(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{}).ID
	card, waiting, parked := b.make(t, NewTask{}).ID, b.make(t, NewTask{Parents: []string{parent}}).ID, b.make(t, NewTask{}).ID
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	if got := b.mustSchedule(t, card, Schedule{Reason: "later", Due: due}); got.Due != due.Unix() || got.Task != card {
		t.Errorf("timer: %+v", got)
	}
	b.mustSchedule(t, waiting, Schedule{Due: due.Add(time.Minute)})
	if got := b.mustSchedule(t, parked, Schedule{Reason: "who knows"}); got.Due != 0 {
		t.Errorf("timer: %+v", got)
	}
	if p := b.lastPayload(t, card, "scheduled"); p["reason"] != "later" || p["due_at"] != float64(due.Unix()) {
		t.Errorf("payload: %v", p)
	}
	if p := b.lastPayload(t, parked, "scheduled"); len(p) != 1 {
		t.Errorf("payload: %v", p)
	}
	timers, err := b.Timers(t.Context())
	if err != nil || len(timers) != 2 || timers[0].Task != card || timers[1].Task != waiting {
		t.Errorf("timers: %+v, %v", timers, err)
	}
	if at, err := b.Due(t.Context()); err != nil || !at.Equal(due) {
		t.Errorf("the board is due at %v, %v", at, err)
	}
	if survey, err := b.Survey(t.Context()); err != nil || survey.Wake != due.Unix() {
		t.Errorf("survey: %+v, %v", survey, err)
	}
	if woken, next := b.mustWake(t, due.Add(-time.Second)); len(woken) != 0 || !next.Equal(due) {
		t.Errorf("before its time: %v, next %v", woken, next)
	}
	if woken, next := b.mustWake(t, due); !slices.Equal(woken, []string{card}) || !next.Equal(due.Add(time.Minute)) {
		t.Errorf("at its time: %v, next %v", woken, next)
	}
	if woken, next := b.mustWake(t, due.Add(time.Hour)); !slices.Equal(woken, []string{waiting}) || !next.IsZero() {
		t.Errorf("later: %v, next %v", woken, next)
	}
	b.wantStatus(t, card, StatusReady)
	b.wantStatus(t, waiting, StatusTodo)
	b.wantStatus(t, parked, StatusScheduled)
	if p := b.lastPayload(t, card, EventUnblocked); p["reason"] != "due" {
		t.Errorf("payload: %v", p)
	}
	b.invariants(t)
}

func TestAScheduledReviewWakesInReview(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{}).ID
	if err := b.RequestReview(t.Context(), card, Review{Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	claim, err := b.Claim(t.Context(), card, Claimer{Review: true})
	if err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(time.Hour)
	b.mustSchedule(t, card, Schedule{Run: &claim.Run.ID, Due: due})
	if run := b.runs(t, card)[1]; run.Outcome != OutcomeScheduled || run.Status != "scheduled" {
		t.Errorf("run: %+v", run)
	}
	b.mustSchedule(t, card, Schedule{Due: due.Add(time.Hour)}) // another time keeps where it goes on
	b.mustWake(t, due.Add(2*time.Hour))
	b.wantStatus(t, card, StatusReview)
	b.invariants(t)
}

func TestATimeIsForgottenWhenTheCardLeaves(t *testing.T) {
	b := newBoard(t)
	due := time.Now().Add(time.Hour)
	for name, leave := range map[string]func(card string){
		"unblock": func(card string) {
			if err := b.Unblock(t.Context(), card, ""); err != nil {
				t.Error(err)
			}
		},
		"archive": func(card string) {
			if err := b.Archive(t.Context(), card); err != nil {
				t.Error(err)
			}
		},
		"move": func(card string) {
			if _, err := b.Move(t.Context(), card, StatusTriage, Movement{}); err != nil {
				t.Error(err)
			}
		},
		"no time": func(card string) { b.mustSchedule(t, card, Schedule{}) },
		"a program that knows no times": func(card string) {
			b.sql(t, `UPDATE tasks SET status = 'ready' WHERE id = ?`, card)
			b.sql(t, `INSERT INTO task_events (task_id, kind, created_at) VALUES (?, 'unblocked', 1)`, card)
			b.sql(t, `UPDATE tasks SET status = 'scheduled' WHERE id = ?`, card)
		},
		"deleted by such a program": func(card string) { b.sql(t, `DELETE FROM tasks WHERE id = ?`, card) },
	} {
		card := b.make(t, NewTask{}).ID
		b.mustSchedule(t, card, Schedule{Due: due, Reason: name})
		leave(card)
		if woken, next := b.mustWake(t, due.Add(time.Hour)); len(woken) != 0 || !next.IsZero() {
			t.Errorf("%s: woke %v, next %v", name, woken, next)
		}
		if n := b.scalar(t, `SELECT COUNT(*) FROM gw_schedules`); n != "0" {
			t.Errorf("%s: %s timers are left", name, n)
		}
	}
}

func TestARecurrenceMakesOneCopyForAllTimesThatCame(t *testing.T) {
	b := newBoard(t)
	three := int64(3)
	pattern := b.make(t, NewTask{
		Title: "look", Body: "at it", Assignee: "dev", Tenant: "x", Priority: 4, Skills: []string{"a"}, MaxRetries: &three, MaxRuntimeSeconds: 60,
		ModelOverride: "m", ProviderOverride: "p", ReasoningEffort: "low", WorkspaceKind: WorkspaceDir, WorkspacePath: "/tmp", SessionID: "s",
	}).ID
	b.sql(t, `INSERT INTO task_attachments (task_id, filename, stored_path, size, created_at) VALUES (?, 'f', '/f', 1, 1)`, pattern)
	b.sql(t, `UPDATE tasks SET workflow_template_id = 'w' WHERE id = ?`, pattern)
	timer := b.mustSchedule(t, pattern, Schedule{Rule: "0 * * * *"})
	due := time.Unix(timer.Due, 0)
	if !due.Equal(time.Now().Truncate(time.Hour).Add(time.Hour)) {
		t.Errorf("first due at %v", due)
	}
	late := due.Add(3*time.Hour + time.Minute)
	woken, next := b.mustWake(t, late)
	if len(woken) != 1 || !next.Equal(due.Add(4*time.Hour)) {
		t.Fatalf("woke %v, next %v", woken, next)
	}
	if again, _ := b.mustWake(t, late); len(again) != 0 {
		t.Errorf("the same times once more: %v", again)
	}
	if n := b.scalar(t, `SELECT COUNT(*) FROM tasks`); n != "2" {
		t.Errorf("%s cards", n)
	}
	made := b.get(t, woken[0])
	want := b.get(t, pattern)
	want.ID, want.Status, want.CreatedBy, want.CreatedAt, want.IdempotencyKey = made.ID, StatusReady, pattern, made.CreatedAt, made.IdempotencyKey
	if diff := diffTasks(made, want); diff != "" || made.IdempotencyKey != pattern+"@"+timeText(timer.Due) {
		t.Errorf("the copy differs: %s, key %s", diff, made.IdempotencyKey)
	}
	if n := b.scalar(t, `SELECT COUNT(*) FROM task_attachments WHERE task_id = ? AND stored_path = '/f'`, made.ID); n != "1" {
		t.Errorf("%s attachments", n)
	}
	b.wantStatus(t, pattern, StatusScheduled)
	if p := b.lastPayload(t, pattern, "recurred"); p["copy"] != made.ID || p["due_at"] != float64(due.Unix()) || p["missed"] != 3.0 {
		t.Errorf("payload: %v", p)
	}
	if p := b.lastPayload(t, made.ID, "created"); p["creator_task_id"] != pattern {
		t.Errorf("payload: %v", p)
	}
	if kinds := b.kinds(t, pattern); !slices.Equal(kinds, []string{"created", "scheduled", "recurred"}) {
		t.Errorf("events: %v", kinds)
	}
	timers, _ := b.Timers(t.Context())
	if len(timers) != 1 || timers[0].Missed != 3 || timers[0].LastCopy != made.ID || timers[0].LastFired != late.Unix() {
		t.Errorf("timers: %+v", timers)
	}
	b.invariants(t)
}

func TestWhileACopyIsOpenItsPatternMakesNoOther(t *testing.T) {
	b := newBoard(t)
	pattern := b.make(t, NewTask{}).ID
	timer := b.mustSchedule(t, pattern, Schedule{Rule: "@hourly"})
	at := time.Unix(timer.Due, 0)
	first, _ := b.mustWake(t, at)
	for i := range 3 {
		at = at.Add(time.Hour)
		if woken, next := b.mustWake(t, at); len(woken) != 0 || !next.Equal(at.Add(time.Hour)) {
			t.Errorf("time %d: woke %v, next %v", i, woken, next)
		}
	}
	if kinds := b.kinds(t, pattern); !slices.Equal(kinds, []string{"created", "scheduled", "recurred", "recurrence_passed_over"}) {
		t.Errorf("events: %v", kinds)
	}
	if p := b.lastPayload(t, pattern, "recurrence_passed_over"); p["open"] != first[0] {
		t.Errorf("payload: %v", p)
	}
	b.mustSchedule(t, pattern, Schedule{Rule: "@hourly"}) // another rule does not forget it
	if err := b.Complete(t.Context(), first[0], Completion{Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	timers, _ := b.Timers(t.Context())
	second, _ := b.mustWake(t, at.Add(time.Hour))
	if len(second) != 1 || timers[0].Missed != 3 {
		t.Errorf("after the copy was done: woke %v, timers %+v", second, timers)
	}
	b.invariants(t)
}

func TestARuleGoesOnWhenTheClockWasFarAheadAndIsSetBack(t *testing.T) {
	b := newBoard(t)
	pattern := b.make(t, NewTask{}).ID
	timer := b.mustSchedule(t, pattern, Schedule{Rule: "@hourly"})
	due := time.Unix(timer.Due, 0)
	ahead := due.Add(3 * 365 * 24 * time.Hour)
	first, _ := b.mustWake(t, ahead)
	if err := b.Complete(t.Context(), first[0], Completion{Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	if s, err := b.Survey(t.Context()); err != nil || s.Wake > time.Now().Unix() {
		t.Errorf("the board is not looked at before %v: %v", time.Unix(s.Wake, 0), err)
	}
	back := due.Add(-time.Minute)
	if woken, next := b.mustWake(t, back); len(woken) != 0 || !next.Equal(due) {
		t.Errorf("set back: woke %v, next %v", woken, next)
	}
	if p := b.lastPayload(t, pattern, "recurrence_set_back"); p["next_at"] != float64(due.Unix()) {
		t.Errorf("payload: %v", p)
	}
	if woken, next := b.mustWake(t, due); len(woken) != 0 || !next.Equal(due.Add(time.Hour)) {
		t.Errorf("a time that had its copy already: woke %v, next %v", woken, next)
	}
	if woken, _ := b.mustWake(t, due.Add(time.Hour)); len(woken) != 1 {
		t.Errorf("the time after that: woke %v", woken)
	}
	b.invariants(t)
}

func TestARuleThatCannotBeReadAnyMoreHoldsUpNoOther(t *testing.T) {
	b := newBoard(t)
	bad, good := b.make(t, NewTask{}).ID, b.make(t, NewTask{}).ID
	due := b.mustSchedule(t, bad, Schedule{Rule: "@hourly"}).Due
	b.mustSchedule(t, good, Schedule{Due: time.Unix(due+1, 0)})
	b.sql(t, `UPDATE gw_schedules SET rule = 'whenever' WHERE task_id = ?`, bad)
	for range 2 {
		b.mustWake(t, time.Unix(due+1, 0))
	}
	b.wantStatus(t, good, StatusReady)
	b.wantStatus(t, bad, StatusScheduled)
	if kinds := b.kinds(t, bad); !slices.Equal(kinds, []string{"created", "scheduled", "recurrence_ended"}) {
		t.Errorf("events: %v", kinds)
	}
}

func TestWhatCannotBeScheduledIsRefused(t *testing.T) {
	b := newBoard(t)
	for name, s := range map[string]Schedule{
		"30 February": {Rule: "0 0 30 2 *"}, "no rule": {Rule: "soon"}, "six fields": {Rule: "* * * * * *"}, "seconds": {Rule: "@everysecond"},
		"minute 60": {Rule: "0,60 * * * *"}, "hour 24": {Rule: "0 24 * * *"}, "month 13": {Rule: "0 0 1 13 *"}, "step 0": {Rule: "*/0 * * * *"},
		"backwards": {Rule: "0 9-7 * * *"}, "31 June": {Rule: "0 0 31 6 *"}, "32W": {Rule: "0 0 32W * *"}, "a word": {Rule: "0 0 * * MONDAY"},
		"zone": {Rule: "@daily", Zone: "Mars/Olympus"}, "local zone": {Rule: "@daily", Zone: "Local"}, "zone of no rule": {Zone: "UTC"},
		"path": {Rule: "@daily", Zone: "../../etc/passwd"}, "past": {Due: time.Now().Add(-time.Minute)}, "far": {Due: time.Now().AddDate(11, 0, 0)},
	} {
		card := b.make(t, NewTask{}).ID
		before := b.dump(t)
		if timer, err := b.Schedule(t.Context(), card, s); err == nil {
			t.Errorf("%s: %+v", name, timer)
		} else {
			t.Log(err)
		}
		if b.dump(t) != before {
			t.Errorf("%s changed the board", name)
		}
	}
}

// Of any number of processes that see a time come, one makes the copy.
func TestOneOfManyProcessesMakesTheCopy(t *testing.T) {
	b := newBoard(t)
	pattern, once := b.make(t, NewTask{}).ID, b.make(t, NewTask{}).ID
	b.mustSchedule(t, pattern, Schedule{Rule: "@daily"})
	b.mustSchedule(t, once, Schedule{Due: time.Now().Add(time.Minute)})
	var woken []string
	for _, said := range together(t, 6, "wake", b.Path(), "") {
		woken = append(woken, strings.Fields(said)...)
	}
	if copies := b.scalar(t, `SELECT COUNT(*) FROM tasks`); len(woken) != 2 || copies != "3" {
		t.Errorf("woke %v, and there are %s cards", woken, copies)
	}
	if kinds := b.kinds(t, pattern); !slices.Equal(kinds, []string{"created", "scheduled", "recurred"}) {
		t.Errorf("events: %v", kinds)
	}
	if kinds := b.kinds(t, once); !slices.Equal(kinds, []string{"created", "scheduled", "unblocked"}) {
		t.Errorf("events: %v", kinds)
	}
	b.invariants(t)
}
