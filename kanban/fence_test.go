package kanban

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/procfs"
)

// supersede makes a card whose first run was ended and that a second run has now.
func supersede(t *testing.T, b *Board) (card string, stale, current RunID) {
	t.Helper()
	card = b.make(t, NewTask{Assignee: "dev"}).ID
	stale = b.mustClaim(t, card)
	if _, err := b.EndRun(t.Context(), End{Task: card, Run: stale, Outcome: OutcomeReclaimed}); err != nil {
		t.Fatal(err)
	}
	return card, stale, b.mustClaim(t, card)
}

func TestASupersededWorkerIsRefusedEverything(t *testing.T) {
	b := newBoard(t)
	card, stale, _ := supersede(t, b)
	other := b.make(t, NewTask{})
	before := b.dump(t)
	ctx := t.Context()
	for name, try := range map[string]func(RunID) error{
		"spawned":   func(r RunID) error { return b.Spawned(ctx, card, r, 1, "f", "k") },
		"heartbeat": func(r RunID) error { return b.Heartbeat(ctx, card, r, "note", time.Minute) },
		"complete":  func(r RunID) error { return b.Complete(ctx, card, Completion{Run: &r, Force: true, Summary: "s"}) },
		"block":     func(r RunID) error { return b.Block(ctx, card, Block{Run: &r, Reason: "r"}) },
		"defer":     func(r RunID) error { return b.Defer(ctx, card, r, time.Now(), "why", nil) },
		"workspace": func(r RunID) error { return b.SetWorkspace(ctx, card, r, "/x", "") },
		"link":      func(r RunID) error { return b.LinkAs(ctx, other.ID, card, r) },
		"end": func(r RunID) error {
			_, err := b.EndRun(ctx, End{Task: card, Run: r, Outcome: OutcomeCrashed})
			return err
		},
	} {
		for _, run := range []RunID{stale, 999, -1} {
			err := try(run)
			wantErr(t, err, ErrStaleRun)
			if err != nil && !strings.Contains(err.Error(), card) {
				t.Errorf("%s: the error does not name the card: %v", name, err)
			}
		}
	}
	if after := b.dump(t); after != before {
		t.Errorf("a superseded worker changed the board:\n%s\n---\n%s", before, after)
	}
}

func TestAnEndedRunIsRefusedToo(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	run := b.mustClaim(t, card.ID)
	if err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "again"}), ErrStaleRun)
	wantErr(t, b.Heartbeat(t.Context(), card.ID, run, "", 0), ErrStaleRun)
	_, err := b.EndRun(t.Context(), End{Task: card.ID, Run: run, Outcome: OutcomeCrashed})
	wantErr(t, err, ErrStaleRun)
	if got := b.runs(t, card.ID); len(got) != 1 || got[0].Outcome != OutcomeCompleted || got[0].Summary != "s" {
		t.Errorf("runs: %+v", got)
	}
}

func TestNobodyCompletesUnderALiveWorkersFeet(t *testing.T) {
	b := newBoard(t)
	self := procfs.Fingerprint(os.Getpid())
	for name, c := range map[string]struct {
		lock, fingerprint string
		pid               int
		live              bool
	}{
		"live here":              {ClaimLock(), self, os.Getpid(), true},
		"live, no fingerprint":   {ClaimLock(), "", os.Getpid(), true},
		"live, unverified":       {ClaimLock(), "unverified", os.Getpid(), true},
		"pid is another process": {ClaimLock(), "boot:1|2", os.Getpid(), false},
		"pid of another start":   {ClaimLock(), "1", os.Getpid(), false},
		"pid is gone":            {ClaimLock(), self, 1 << 22, false},
		"claimed by hand":        {ClaimLock(), "", 0, false},
		"elsewhere":              {"other-host:1", "x", 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			card := b.make(t, NewTask{})
			claim, err := b.Claim(t.Context(), card.ID, Claimer{Lock: c.lock})
			if err != nil {
				t.Fatal(err)
			}
			if c.pid != 0 {
				if err := b.Spawned(t.Context(), card.ID, claim.Run.ID, c.pid, c.fingerprint, ""); err != nil {
					t.Fatal(err)
				}
			}
			err = b.Complete(t.Context(), card.ID, Completion{Summary: "by a person"})
			if !c.live {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantErr(t, err, ErrLiveClaim)
			b.wantStatus(t, card.ID, StatusRunning)
			if err := b.Complete(t.Context(), card.ID, Completion{Summary: "by force", Force: true}); err != nil {
				t.Error(err)
			}
		})
	}
	b.invariants(t)
}

func TestSpawnedRecordsTheWorkerEverywhere(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	run := b.mustClaim(t, card.ID)
	if err := b.Spawned(t.Context(), card.ID, run, 42, "boot:1|2", "keeper-1"); err != nil {
		t.Fatal(err)
	}
	got, row := b.get(t, card.ID), b.runs(t, card.ID)[0]
	if got.WorkerPID != 42 || got.WorkerStarted != "boot:1|2" || row.WorkerPID != 42 || row.WorkerStarted != "boot:1|2" {
		t.Errorf("card %+v, run %+v", got, row)
	}
	running, err := b.Running(t.Context())
	if err != nil || len(running) != 1 || running[0].Keeper != "keeper-1" || running[0].Run.ID != run || running[0].Started() != row.StartedAt {
		t.Errorf("running: %+v, %v", running, err)
	}
	if p := b.scalar(t, `SELECT payload FROM task_events WHERE kind = 'spawned'`); p != `{"pid": 42, "started_at": "boot:1|2"}` {
		t.Errorf("payload: %s", p)
	}
	// A verdict leaves the keeper to be accounted for; settling ends that.
	if err := b.Complete(t.Context(), card.ID, Completion{Run: &run, Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	keepers, err := b.Keepers(t.Context())
	if err != nil || len(keepers) != 1 || keepers[0].Current || keepers[0].ID != "keeper-1" || keepers[0].Run != run {
		t.Errorf("keepers: %+v, %v", keepers, err)
	}
	if err := b.Settle(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if keepers, err := b.Keepers(t.Context()); err != nil || len(keepers) != 0 {
		t.Errorf("keepers after settling: %+v, %v", keepers, err)
	}
}

func TestHeartbeatsAreEventsOnlyWithANote(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	claim, err := b.Claim(t.Context(), card.ID, Claimer{TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	run := claim.Run.ID
	if err := b.Heartbeat(t.Context(), card.ID, run, "", 0); err != nil {
		t.Fatal(err)
	}
	got := b.get(t, card.ID)
	if got.LastHeartbeatAt == 0 || got.ClaimExpires != claim.Run.ClaimExpires {
		t.Errorf("heartbeat without a ttl: %+v", got)
	}
	if err := b.Heartbeat(t.Context(), card.ID, run, "half done", time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card.ID); got.ClaimExpires < claim.Run.ClaimExpires+3000 || b.runs(t, card.ID)[0].ClaimExpires != got.ClaimExpires {
		t.Errorf("the claim was not extended: %+v", got)
	}
	if got := b.scalar(t, `SELECT COUNT(*) || MAX(payload) FROM task_events WHERE kind = 'heartbeat'`); got != `1{"note": "half done"}` {
		t.Errorf("heartbeat events: %s", got)
	}
}

func TestDeferKeepsTheClaim(t *testing.T) {
	b := newBoard(t)
	card := b.make(t, NewTask{})
	run := b.mustClaim(t, card.ID)
	until := time.Now().Add(2 * time.Minute)
	if err := b.Defer(t.Context(), card.ID, run, until, "ttl_expired_worker_alive", map[string]any{"prev_pid": 7}); err != nil {
		t.Fatal(err)
	}
	if got := b.get(t, card.ID); got.Status != StatusRunning || got.ClaimExpires != until.Unix() || got.CurrentRunID != run {
		t.Errorf("deferred card: %+v", got)
	}
	if p := b.lastPayload(t, card.ID, "reclaim_deferred"); p["reason"] != "ttl_expired_worker_alive" || p["prev_pid"] != 7.0 {
		t.Errorf("payload: %v", p)
	}
}

// A board that is held for a run asks the fence before every write, also of verbs that name no run and on other cards.
func TestABoardHeldForASupersededRunWritesNothing(t *testing.T) {
	b := newBoard(t)
	card, stale, current := supersede(t, b)
	other := b.make(t, NewTask{}).ID
	run := b.runs(t, card)[1]
	ctx := t.Context()
	writes := map[string]func(*Board) error{
		"comment": func(b *Board) error { _, err := b.Comment(ctx, other, "dev", "late"); return err },
		"create":  func(b *Board) error { _, err := b.Create(ctx, NewTask{Title: "late"}); return err },
		"link":    func(b *Board) error { return b.Link(ctx, card, other) },
		"archive": func(b *Board) error { return b.Archive(ctx, other) },
	}
	before := b.dump(t)
	for what, fence := range map[string]Fence{
		"an ended run":            {Task: card, Run: stale},
		"no run":                  {Task: card},
		"a run of another file":   {Task: card, Run: current, Started: run.StartedAt + 1},
		"a run of another claim":  {Task: card, Run: current, Lock: "elsewhere:1"},
		"the run of another card": {Task: other, Run: current},
	} {
		for name, write := range writes {
			if err := write(b.As(fence)); !errors.Is(err, ErrStaleRun) {
				t.Errorf("%s by %s: %v", name, what, err)
			}
		}
		if _, err := b.CurrentRun(ctx, fence); !errors.Is(err, ErrStaleRun) {
			t.Errorf("%s counts as current: %v", what, err)
		}
	}
	if after := b.dump(t); after != before {
		t.Errorf("the board was changed:\n%s\n---\n%s", before, after)
	}
	held := Fence{Task: card, Run: current, Started: run.StartedAt, Lock: run.ClaimLock}
	if found, err := b.CurrentRun(ctx, held); err != nil || found.Profile != "dev" {
		t.Errorf("the current run: %+v, %v", found, err)
	}
	for name, write := range writes {
		if err := write(b.As(held)); err != nil {
			t.Errorf("%s by the current run: %v", name, err)
		}
	}
}

func TestActivityExtendsAClaimOnceAMinuteWithoutAnEvent(t *testing.T) {
	b, ctx := newBoard(t), t.Context()
	card := b.make(t, NewTask{Assignee: "dev"}).ID
	run := b.mustClaim(t, card)
	const ttl = DefaultClaimTTL
	look := func() Run {
		t.Helper()
		r, err := b.CurrentRun(ctx, Fence{Task: card, Run: run})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	age := func(seconds int64) {
		t.Helper()
		b.sql(t, `UPDATE tasks SET claim_expires = claim_expires - ?`, seconds)
		b.sql(t, `UPDATE task_runs SET claim_expires = claim_expires - ?`, seconds)
	}
	active := func() {
		t.Helper()
		if err := b.Active(ctx, look(), ttl); err != nil {
			t.Fatal(err)
		}
	}
	events := len(b.kinds(t, card))
	active()
	fresh := look().ClaimExpires
	age(59)
	if active(); look().ClaimExpires > fresh-58 {
		t.Error("a claim was extended twice within a minute")
	}
	age(2)
	if active(); look().ClaimExpires < fresh {
		t.Errorf("a minute later it was not extended: %d, was %d", look().ClaimExpires, fresh)
	}
	if look().LastHeartbeatAt != 0 {
		t.Error("activity began heartbeats that nobody promised")
	}
	if err := b.Heartbeat(ctx, card, run, "", ttl); err != nil {
		t.Fatal(err)
	}
	b.sql(t, `UPDATE task_runs SET last_heartbeat_at = 7`)
	b.sql(t, `UPDATE tasks SET last_heartbeat_at = 7`)
	age(61)
	if active(); look().LastHeartbeatAt < fresh-3600 {
		t.Error("a worker that sends heartbeats is taken for stuck although it is active")
	}
	if now := len(b.kinds(t, card)); now != events {
		t.Errorf("%d events became %d", events, now)
	}
	old := look()
	old.ClaimExpires = 0
	if err := b.Block(ctx, card, Block{Run: &run, Reason: "over"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Active(ctx, old, ttl); !errors.Is(err, ErrStaleRun) {
		t.Errorf("the run is over, and its activity: %v", err)
	}
}
