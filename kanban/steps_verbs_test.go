package kanban

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/internal/procfs"
)

// verbWorks are the verbs of a card, each cut before each of its statements. The card that they are about is the first.
func verbWorks() map[string]boardWork {
	works := map[string]boardWork{
		"schedule": {prepare: with(claimed), do: on(func(ctx context.Context, b *Board, id string) error {
			_, err := b.Schedule(ctx, id, Schedule{Due: time.Now().Add(time.Hour)})
			return err
		}), must: []string{"INSERT INTO gw_schedules"}},
		"wake":  {prepare: with(scheduled("")), do: wakeAll, must: []string{"DELETE FROM gw_schedules", "UPDATE tasks"}},
		"recur": {prepare: with(scheduled("@hourly")), do: wakeAll, must: []string{"INSERT INTO tasks", "UPDATE gw_schedules", "INSERT INTO task_attachments"}},
		"review": {prepare: with(claimed), do: on(func(ctx context.Context, b *Board, id string) error {
			return b.RequestReview(ctx, id, Review{Summary: "s", Reviewer: "critic"})
		}), must: []string{"UPDATE task_runs"}},
		"changes": {prepare: with(inReview), do: on(func(ctx context.Context, b *Board, id string) error { return b.RequestChanges(ctx, id, nil, "r") }), must: []string{"UPDATE tasks SET assignee"}},
		"reopen":  {prepare: with(finished), do: on(func(ctx context.Context, b *Board, id string) error { return b.ReopenReview(ctx, id, "r") }), must: []string{"INSERT INTO task_comments"}},
		"promote": {prepare: with(waiting), do: on(func(ctx context.Context, b *Board, id string) error { return b.PromoteByHand(ctx, id, "", "", true) }), must: []string{"DELETE FROM task_links"}},
		"specify": {prepare: idea, do: on(func(ctx context.Context, b *Board, id string) error {
			return b.Specify(ctx, id, Specification{Body: new("b")})
		})},
		"decompose": {prepare: idea, do: on(func(ctx context.Context, b *Board, id string) error {
			_, err := b.Decompose(ctx, id, Decomposition{Children: []NewTask{{Title: "a"}, {Title: "b", Parents: []string{"#1"}}}})
			return err
		}), must: []string{"INSERT INTO tasks", "INSERT INTO task_links"}},
		"edit": {prepare: oneCard, do: on(func(ctx context.Context, b *Board, id string) error {
			return b.Edit(ctx, id, Edit{Title: new("two"), Priority: new(int64(3))})
		})},
		"model": {prepare: oneCard, do: on(func(ctx context.Context, b *Board, id string) error {
			return b.SetModel(ctx, id, ModelChoice{Model: new("m"), Reasoning: new("low")})
		})},
		"reclaim": {prepare: with(claimed), do: on(func(ctx context.Context, b *Board, id string) error { _, err := b.Reclaim(ctx, id, "", ""); return err }), must: []string{"UPDATE task_runs", "DELETE FROM gw_stops"}},
		"stop":    {prepare: with(working), do: on(func(ctx context.Context, b *Board, id string) error { _, err := b.Reclaim(ctx, id, "", ""); return err }), must: []string{"INSERT INTO gw_stops"}},
		"end stopped": {prepare: with(stopping), do: on(func(ctx context.Context, b *Board, id string) error {
			card, err := b.Task(ctx, id)
			if err == nil {
				_, err = b.EndRun(ctx, End{Task: id, Run: card.CurrentRunID, Outcome: OutcomeCrashed})
			}
			return err
		}), must: []string{"DELETE FROM gw_stops", "UPDATE gw_runs"}},
		"move": {prepare: with(finished), do: on(func(ctx context.Context, b *Board, id string) error {
			_, err := b.Move(ctx, id, StatusTodo, Movement{})
			return err
		}), must: []string{"INSERT INTO task_comments"}},
		"archive": {prepare: with(working), do: on(func(ctx context.Context, b *Board, id string) error { return b.Archive(ctx, id) }), must: []string{"INSERT INTO gw_stops", "UPDATE task_runs"}},
		"delete":  {prepare: with(finished), do: on(func(ctx context.Context, b *Board, id string) error { _, err := b.Delete(ctx, id); return err }), must: []string{"DELETE FROM tasks", "DELETE FROM task_events", "DELETE FROM task_links"}},
	}
	for name, w := range works {
		w.stride = 4
		works[name] = w
	}
	return works
}

func on(do func(context.Context, *Board, string) error) func(context.Context, *Board) error {
	return func(ctx context.Context, b *Board) error {
		id, err := onlyCard(ctx, b)
		if err == nil {
			err = do(ctx, b, id)
		}
		return err
	}
}

func wakeAll(ctx context.Context, b *Board) error {
	_, _, err := b.WakeDue(ctx, time.Now().Add(2*time.Hour))
	return err
}

// with makes a board with one card and what a preparation makes of it.
func with(prepare func(t *testing.T, b *Board, id string)) func(t *testing.T) string {
	return func(t *testing.T) string {
		b := openBoard(t, Options{Path: oneCard(t)})
		defer b.Close()
		prepare(t, b, b.scalar(t, `SELECT id FROM tasks`))
		return b.Path()
	}
}

func idea(t *testing.T) string {
	t.Helper()
	b := openBoard(t, Options{Path: filepath.Join(t.TempDir(), "kanban.db"), Create: true})
	defer b.Close()
	b.make(t, NewTask{Title: "one", Triage: true})
	return b.Path()
}

func claimed(t *testing.T, b *Board, id string) { b.mustClaim(t, id) }

// working: the worker is the process of the test, which outlives whoever is killed.
func working(t *testing.T, b *Board, id string) {
	run := b.mustClaim(t, id)
	if err := b.Spawned(t.Context(), id, run, os.Getpid(), procfs.Fingerprint(os.Getpid()), "keeper"); err != nil {
		t.Fatal(err)
	}
}

func stopping(t *testing.T, b *Board, id string) {
	working(t, b, id)
	if _, err := b.Reassign(t.Context(), id, "ops", "r", "ann", true); err != nil {
		t.Fatal(err)
	}
}

func scheduled(rule string) func(t *testing.T, b *Board, id string) {
	return func(t *testing.T, b *Board, id string) {
		s := Schedule{Rule: rule}
		if rule == "" {
			s.Due = time.Now().Add(time.Hour)
		}
		b.mustSchedule(t, id, s)
	}
}

func inReview(t *testing.T, b *Board, id string) {
	if err := b.RequestReview(t.Context(), id, Review{Summary: "s", Reviewer: "critic"}); err != nil {
		t.Fatal(err)
	}
}

func waiting(t *testing.T, b *Board, id string) {
	if err := b.Link(t.Context(), b.make(t, NewTask{Title: "parent"}).ID, id); err != nil {
		t.Fatal(err)
	}
}

// finished: done, and so is what was built on it.
func finished(t *testing.T, b *Board, id string) {
	for _, card := range []string{id, b.make(t, NewTask{Title: "child", Parents: []string{id}}).ID} {
		if err := b.Complete(t.Context(), card, Completion{Summary: "s"}); err != nil {
			t.Fatal(err)
		}
	}
}
