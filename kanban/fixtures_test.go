package kanban

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

// fixture copies a file that the Python original wrote; opening writes, so the original is never opened.
func fixture(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("GATEWAYD_FIXTURES")
	if dir == "" {
		t.Skip("GATEWAYD_FIXTURES is not set: files written by the Python original are not tested")
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kanban.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type fixtureCounts struct {
	file                                                                 string
	cards, ready, todo, done, blocked, running, archived, triage, linked int
}

func fixtures() []fixtureCounts {
	return []fixtureCounts{
		{"kanban_0140.db", 40, 16, 8, 8, 4, 3, 1, 0, 8},
		{"kanban_0170.db", 61, 28, 10, 10, 7, 4, 1, 1, 10},
	}
}

func TestFixturesAreListedWithAllTheyHold(t *testing.T) {
	for _, want := range fixtures() {
		t.Run(want.file, func(t *testing.T) {
			b := openBoard(t, Options{Path: fixture(t, want.file)})
			tasks, err := b.List(t.Context(), Filter{Archived: true})
			if err != nil || len(tasks) != want.cards {
				t.Fatalf("%d cards, %v; want %d", len(tasks), err, want.cards)
			}
			stats, err := b.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for status, n := range map[Status]int{
				StatusReady: want.ready, StatusTodo: want.todo, StatusDone: want.done, StatusBlocked: want.blocked, StatusRunning: want.running,
				StatusArchived: want.archived, StatusTriage: want.triage,
			} {
				if stats.ByStatus[string(status)] != n {
					t.Errorf("%d cards are %s, want %d", stats.ByStatus[string(status)], status, n)
				}
			}
			if got := b.scalar(t, `SELECT COUNT(*) FROM task_links`); got != fmt.Sprint(want.linked) {
				t.Errorf("%s links, want %d", got, want.linked)
			}
			if got := b.scalar(t, `SELECT body FROM task_comments`); got != "ünïcode ✓" {
				t.Errorf("comment: %q", got)
			}
			if got := b.scalar(t, `SELECT platform || chat_id || user_id || delivery_mode FROM kanban_notify_subs`); got != "telegram42unotify+wake" {
				t.Errorf("subscription: %q", got)
			}
			for _, card := range tasks {
				if _, err := b.Show(t.Context(), card.ID); err != nil {
					t.Error(err)
				}
				if text, err := b.Context(t.Context(), card.ID); err != nil || !strings.Contains(text, card.ID) {
					t.Errorf("context of %s: %v", card.ID, err)
				}
			}
		})
	}
}

func TestFixturesLoseNothingInALifeCycle(t *testing.T) {
	for _, want := range fixtures() {
		t.Run(want.file, func(t *testing.T) {
			path := fixture(t, want.file)
			bare := openBoard(t, Options{Path: path})
			bare.sql(t, `ALTER TABLE tasks ADD COLUMN worker_scope TEXT DEFAULT 'of a fork'`)
			bare.sql(t, `ALTER TABLE task_runs ADD COLUMN recipe_id INTEGER DEFAULT 7`)
			bare.sql(t, `CREATE TABLE recipe_steps AS SELECT 1 AS id, 'step' AS text`)
			if err := bare.Close(); err != nil {
				t.Fatal(err)
			}
			b := openBoard(t, Options{Path: path})
			before := oldRows(t, b)
			workThrough(t, b)
			for row, text := range before {
				if got := oldRows(t, b)[row]; got != text {
					t.Errorf("%s was %q, is %q", row, text, got)
				}
			}
			if got := b.scalar(t, `SELECT COUNT(*) FROM tasks WHERE worker_scope IS NOT 'of a fork'`); got != "0" {
				t.Errorf("a fork's column changed on %s cards", got)
			}
			if got := b.scalar(t, `SELECT COUNT(*) FROM task_runs WHERE recipe_id IS NOT 7`); got != "0" {
				t.Errorf("a fork's column changed on %s runs", got)
			}
			if got := b.scalar(t, `PRAGMA integrity_check`); got != "ok" {
				t.Errorf("integrity_check: %s", got)
			}
			b.invariants(t)
		})
	}
}

// oldRows are the parts of old rows that no verb may change.
func oldRows(t *testing.T, b *Board) map[string]string {
	t.Helper()
	return map[string]string{
		"titles":   b.scalar(t, `SELECT group_concat(id || title || COALESCE(body, '') || COALESCE(skills, '') || COALESCE(tenant, ''), char(10)) FROM (SELECT * FROM tasks ORDER BY rowid)`),
		"events":   b.scalar(t, `SELECT group_concat(id || kind || COALESCE(payload, '') || COALESCE(run_id, ''), char(10)) FROM (SELECT * FROM task_events WHERE id <= 73 ORDER BY id)`),
		"comments": b.scalar(t, `SELECT group_concat(author || body) FROM task_comments`),
		"runs":     b.scalar(t, `SELECT group_concat(id || task_id || outcome || COALESCE(summary, '') || COALESCE(metadata, ''), char(10)) FROM (SELECT * FROM task_runs WHERE id <= 8 ORDER BY id)`),
		"links":    b.scalar(t, `SELECT group_concat(parent_id || child_id) FROM (SELECT * FROM task_links ORDER BY 1, 2)`),
		"fork":     b.scalar(t, `SELECT id || text FROM recipe_steps`),
	}
}

// workThrough completes every card that can be: ready ones by a claim, blocked ones after an unblock, foreign claims by their
// run, and their children as they come free.
func workThrough(t *testing.T, b *Board) {
	t.Helper()
	ctx := t.Context()
	blocked, err := b.List(ctx, Filter{Status: StatusBlocked})
	if err != nil {
		t.Fatal(err)
	}
	for _, card := range blocked {
		if err := b.Unblock(ctx, card.ID, ""); err != nil {
			t.Error(err)
		}
	}
	running, err := b.Running(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range running {
		if _, err := b.EndRun(ctx, End{Task: r.Task.ID, Run: r.Run.ID, Outcome: OutcomeReclaimed, Error: "stale_lock=" + r.Task.ClaimLock}); err != nil {
			t.Error(err)
		}
	}
	for {
		ready, err := b.Ready(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(ready) == 0 {
			break
		}
		for _, cand := range ready {
			run := b.mustClaim(t, cand.Task.ID)
			if err := b.Complete(ctx, cand.Task.ID, Completion{Run: &run, Summary: "ünïcode ✓", Metadata: map[string]any{"k": []any{1.0, 2.0}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	left, err := b.List(ctx, Filter{Status: StatusTodo})
	if err != nil || len(left) > 0 {
		t.Errorf("%d cards were left in todo although their parents are done (%v)", len(left), err)
	}
	if got := b.scalar(t, `SELECT DISTINCT metadata FROM task_runs WHERE metadata IS NOT NULL`); got != `{"k": [1, 2]}` {
		t.Errorf("our metadata is written otherwise than the original's: %s", got)
	}
}

func TestDamagedFixturesAreRefusedAndLeftAlone(t *testing.T) {
	for name, hint := range map[string]string{"kanban_0170_torn.db": "page count mismatch", "kanban_0170_tls.db": "TLS record"} {
		t.Run(name, func(t *testing.T) {
			path := fixture(t, name)
			before := fileBytes(t, path)
			for _, create := range []bool{false, true} {
				_, err := Open(t.Context(), Options{Path: path, Slug: "work", Create: create})
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) || !errors.Is(err, ErrCorruptBoard) || !problem.Is(err, problem.Damaged) {
					t.Fatalf("open: %v", err)
				}
				if !strings.Contains(err.Error(), hint) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "left as it is") {
					t.Errorf("the error does not say what it must: %v", err)
				}
				if corrupt.Path != path || corrupt.Reason == "" || corrupt.Backup != "" {
					t.Errorf("the error carries %+v", corrupt)
				}
			}
			if fileBytes(t, path) != before {
				t.Error("a damaged file was written to")
			}
			entries, err := os.ReadDir(filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Name() != "kanban.db" {
					t.Errorf("opening a damaged file left %s behind", e.Name())
				}
			}
		})
	}
}
