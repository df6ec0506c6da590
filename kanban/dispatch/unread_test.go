package dispatch

import (
	"os"
	"path/filepath"
	"testing"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
)

// A daemon was killed beside its worker, and the keeper's start file cannot be read any more.
func TestAWorkerWhoseRecordCannotBeReadStopsNothing(t *testing.T) {
	for _, point := range []string{"started", "recorded"} { // before and after its pid was written down
		t.Run(point, func(t *testing.T) {
			h := newHouse(t)
			h.config = playSettings(h.dir)
			b := h.board(kanban.DefaultSlug)
			id := card(t, b, "long")
			play(t, h.dir, point)
			var records []reaper.Record
			wait(t, "the keeper to have written down its child, which it does last", func() bool {
				var err error
				records, err = h.reaper.Records()
				must(t, err)
				return len(records) == 1 && records[0].Child.PID != 0
			})
			start := filepath.Join(h.dir, "records", records[0].ID+".start.json")
			whole := readAll(t, start)[0]
			must(t, os.WriteFile(start, []byte("{"), 0o600))
			t.Cleanup(func() { _ = os.WriteFile(start, whole, 0o600) }) // for the house to end it by
			other := card(t, b, "ok")
			d := h.dispatcher()
			r := tickUntil(t, d, "the other card", isStatus(t, b, other, kanban.StatusDone))
			for range 3 {
				more, err := d.Tick(t.Context())
				must(t, err)
				r = add(r, more)
			}
			if s := status(t, b, id); s != kanban.StatusRunning || len(r.Failed) > 0 {
				t.Errorf("beside its living worker the card is %s; failures %v", s, r.Failed)
			}
			if pids := lines(filepath.Join(h.dir, "pids")); len(pids) != 1 {
				t.Errorf("%d workers were started for one card", len(pids))
			}
			if n := h.log.count("worker cannot be adopted"); n != 1 {
				t.Errorf("it is told %d times", n)
			}
		})
	}
}

func TestAWorkerThatIsGoneWithoutAReadableRecordIsOver(t *testing.T) {
	h := newHouse(t)
	h.config.CrashGrace = 0
	b := h.board(kanban.DefaultSlug)
	id := card(t, b, "human")
	claim, err := b.Claim(t.Context(), id, kanban.Claimer{Lock: kanban.ClaimLock(), TTL: h.config.ClaimTTL})
	must(t, err)
	keeper := worker.KeeperID(h.root.DBPath(kanban.DefaultSlug), int64(claim.Run.ID), claim.Run.StartedAt)
	start := filepath.Join(h.dir, "records", keeper+".start.json")
	must(t, os.WriteFile(start, nil, 0o600))
	d := h.dispatcher()
	tickUntil(t, d, "the card", isStatus(t, b, id, kanban.StatusReady))
	if _, err := os.Stat(start); !os.IsNotExist(err) {
		t.Errorf("what nobody can read is kept: %v", err)
	}
}

func TestKeepersRowsThatNobodyCanReadStopNothing(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	for run, row := range []string{`'..', 'abc', x'ff', 'soon'`, `'', NULL, NULL, NULL`, `x'00ff', -1, 7, -1`, `'run-broken', 1.5, 'x', 9e99`} {
		if run == 0 { // as loose as other programs may make it
			set(t, b, `DROP TABLE gw_runs`)
			set(t, b, `CREATE TABLE gw_runs (run_id INTEGER PRIMARY KEY, task_id, keeper_id, pid, fingerprint, spawned_at, settled_at)`)
		}
		set(t, b, `INSERT INTO gw_runs (run_id, task_id, keeper_id, pid, fingerprint, spawned_at) VALUES (?, 't_x', `+row+`)`, 900+run)
	}
	broken := filepath.Join(h.dir, "records", "run-broken.json")
	must(t, os.WriteFile(broken, []byte("[]"), 0o600))
	kept := filepath.Join(h.dir, "runs", "run-other")
	must(t, os.MkdirAll(kept, 0o700))
	id := card(t, b, "ok")
	d := h.dispatcher()
	r := tickUntil(t, d, "the card", isStatus(t, b, id, kanban.StatusDone))
	if len(r.Failed) > 0 {
		t.Errorf("%v", r.Failed)
	}
	if keepers, err := b.Keepers(t.Context()); err != nil || len(keepers) > 0 {
		t.Errorf("unsettled: %+v %v", keepers, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("a row's id led to another run's directory: %v", err)
	}
	if _, err := os.Stat(broken); !os.IsNotExist(err) {
		t.Errorf("what nobody can read is kept: %v", err)
	}
}
