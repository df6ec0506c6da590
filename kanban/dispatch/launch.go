package dispatch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// launch makes the workspace and starts the worker, beside the tick: git may take a minute, and no other card
// waits for it. What it means for the card is written under the lock again. A start that is under way when the
// daemon ends is finished, so that its worker is on record.
func (d *Dispatcher) launch(ctx context.Context, b *board, handle *kanban.Board, w *attached, claim kanban.Claim, lane worker.Lane, p *pass) {
	proc, made, err := d.begin(ctx, w, claim, lane, b, handle)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writePatience)
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.notStarted(ctx, b, w, err, p)
		return
	}
	w.proc = proc
	d.follow(w)
	d.healthOf(lane.Name).recovered(true)
	if w.orphan {
		w.stop(RunOver, time.Now())
	}
	if b.handle == nil {
		return // the board went away meanwhile; the keeper's name is in the row, and its record waits
	}
	w.print = proc.Fingerprint()
	err = b.handle.Spawned(ctx, w.task, w.run, proc.PID(), w.print, w.id)
	switch err = stored(err); {
	case errors.Is(err, kanban.ErrStaleRun):
		b.log.Info("card moved while its worker was started; the worker is ended", "task", w.task, "run", w.run, "pid", proc.PID())
		w.stop(RunOver, time.Now())
		return
	case err != nil:
		b.log.Warn("worker runs, but its pid could not be written down", "task", w.task, "run", w.run, "pid", proc.PID(), "error", err)
	}
	d.place(ctx, b, w, claim.Task, made)
	p.note(&p.Spawned, w.item(true))
	b.log.Info("worker started", "task", w.task, "run", w.run, "pid", proc.PID(), "lane", lane.Name)
}

// place writes down where the worker works.
func (d *Dispatcher) place(ctx context.Context, b *board, w *attached, t kanban.Task, made worker.Made) {
	if made.Path == t.WorkspacePath && made.Branch == t.BranchName {
		return
	}
	if err := stored(b.handle.SetWorkspace(ctx, w.task, w.run, made.Path, made.Branch)); err != nil {
		b.log.Warn("workspace could not be written down", "task", w.task, "run", w.run, "path", made.Path, "error", err)
	}
}

// begin makes the workspace, gathers what the worker should read, and starts it. It runs without the lock, so of the
// board it takes only what never changes.
func (d *Dispatcher) begin(ctx context.Context, w *attached, claim kanban.Claim, lane worker.Lane, b *board, handle *kanban.Board) (worker.Running, worker.Made, error) {
	t := claim.Task
	root := filepath.Dir(d.o.Root.WorkspaceDir(b.slug, "x"))
	made, err := d.workspace(ctx, b, worker.Place{Kind: t.WorkspaceKind, Path: t.WorkspacePath, Branch: t.BranchName, Task: t.ID, Root: root, BoardWorkdir: w.workdir})
	if err != nil {
		return nil, made, &worker.LaunchError{Fault: worker.FaultCard, Err: err}
	}
	if t.WorkspaceKind == kanban.WorkspaceScratch || t.WorkspaceKind == "" {
		d.tip(ctx, b, handle, w, made.Path)
	}
	job := worker.Job{
		Board: string(b.slug), DB: b.path, Root: d.o.Root.Dir(), Home: d.o.Home, Exe: d.o.Exe, WorkspacesRoot: root, RunsDir: d.o.RunsDir,
		LogPath: d.o.Root.LogPath(b.slug, t.ID), LogMax: d.tuned().Kanban.LogMaxBytes, Card: cardOf(t), Run: int64(w.run), RunStarted: claim.Run.StartedAt,
		Lock: d.lock, Lane: lane, Workspace: made.Path, MaxRuntime: w.limit,
	}
	if w.review {
		job.Card.Review, job.Card.Skills = true, withSkill(job.Card.Skills, reviewSkill)
	}
	if claim.Run.Profile == "" {
		job.Card.Assignee = lane.Name
	}
	if text, err := handle.Context(ctx, t.ID); err == nil {
		job.Card.Text = text
	} else {
		b.log.Warn("card's history cannot be read; the worker gets the card alone", "task", t.ID, "error", err)
	}
	proc, err := d.o.Launcher.Launch(context.WithoutCancel(ctx), job)
	return proc, made, err
}

// workspace makes where the card is worked on. A worktree is not made while another of the board is being removed.
func (d *Dispatcher) workspace(ctx context.Context, b *board, place worker.Place) (worker.Made, error) {
	if place.Kind == kanban.WorkspaceWorktree {
		b.trees.Lock()
		defer b.trees.Unlock()
	}
	return d.o.Workspaces.Make(ctx, place)
}

// tip tells once on a root, with the first card that is worked on in a scratch directory, what becomes of it.
func (d *Dispatcher) tip(ctx context.Context, b *board, handle *kanban.Board, w *attached, path string) {
	if !d.o.Root.FirstScratch() {
		return
	}
	const message = "A scratch workspace is removed when its card is done or archived and no open card waits for it. Files that should stay are named as artifacts, or the card gets a dir or worktree workspace."
	b.log.Warn("scratch workspaces are removed with their cards", "task", w.task, "run", w.run, "path", path, "remedy", "name what should stay as artifacts, or use a dir or worktree workspace")
	if err := stored(handle.NoteTip(ctx, w.task, w.run, message)); err != nil {
		b.log.Debug("tip could not be noted", "task", w.task, "error", err)
	}
}

// notStarted puts the card back. Only what is the card's own fault counts against it: a program that is missing
// holds its lane, and a host without resources makes the lane wait.
func (d *Dispatcher) notStarted(ctx context.Context, b *board, w *attached, err error, p *pass) {
	delete(d.workers, w.id)
	v := Verdict{Outcome: kanban.OutcomeSpawnFailed, Event: kanban.EventSpawnFailed, Exit: "start_failed", Error: causeOf(err), Count: true}
	launch, _ := errors.AsType[*worker.LaunchError](err)
	switch {
	case errors.Is(err, context.Canceled):
		v = notStarted()
	case launch == nil || launch.Fault == worker.FaultHost:
		v.Count, v.Error = false, hostFault+v.Error
		d.healthOf(w.lane).refused(v.Error, p.now)
	case launch.Fault == worker.FaultProgram:
		v.Count = false
		d.healthOf(w.lane).refused(v.Error, p.now)
	}
	if b.handle == nil {
		return
	}
	if err := d.end(ctx, b, w.item(true), v, nil, w.manual(), p); err != nil && !errors.Is(err, kanban.ErrConflict) {
		b.log.Warn("card of a failed start could not be put back; its claim will run out", "task", w.task, "run", w.run, "error", err)
	}
}

// causeOf is the text for the card: a workspace's failure begins with "workspace: ".
func causeOf(err error) string {
	if launch, ok := errors.AsType[*worker.LaunchError](err); ok {
		err = launch.Err
	}
	text := err.Error()
	if r := []rune(text); len(r) > maxError {
		text = string(r[:maxError])
	}
	return text
}

// reviewSkill is what a reviewer is told to follow.
const reviewSkill = "sdlc-review"

func withSkill(skills []string, skill string) []string {
	if slices.Contains(skills, skill) {
		return skills
	}
	return append(slices.Clone(skills), skill)
}

func cardOf(t kanban.Task) worker.Card {
	return worker.Card{
		ID: t.ID, Title: t.Title, Body: t.Body, Assignee: t.Assignee, Tenant: t.Tenant, BranchName: t.BranchName, Model: t.ModelOverride,
		Provider: t.ProviderOverride, Reasoning: t.ReasoningEffort, Skills: t.Skills, GoalMode: t.GoalMode, GoalMaxTurns: t.GoalMaxTurns,
		Kind: t.WorkspaceKind, WorkspacePath: t.WorkspacePath,
	}
}

// complete finishes a card whose command ended well. done is false when the board refuses it for a reason of the
// card's own, which a person must see.
func (d *Dispatcher) complete(ctx context.Context, b *board, w *attached, p *pass) (refused string, err error) {
	summary := worker.Summary(w.proc.Output())
	if summary == "" {
		summary = fmt.Sprintf("exited with code 0 after %s", w.exit.Ran.Round(time.Millisecond))
	}
	run := w.run
	err = stored(b.handle.Complete(ctx, w.task, kanban.Completion{
		Run: &run, Summary: summary,
		Metadata: map[string]any{"exit_code": 0, "seconds": w.exit.Ran.Seconds(), "cpu_seconds": w.exit.CPU.Seconds(), "lane": w.lane},
	}))
	switch {
	case errors.Is(err, kanban.ErrStaleRun), errors.Is(err, kanban.ErrNotFound):
		return "", err
	case errors.Is(err, kanban.ErrConflict), problem.Is(err, problem.Invalid):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("complete card: %w", err)
	}
	b.wrote = true
	p.note(&p.Completed, w.item(true))
	b.log.Info("run ended", "task", w.task, "run", w.run, "pid", w.exit.PID, "lane", w.lane, "outcome", kanban.OutcomeCompleted, "card", string(kanban.StatusDone))
	return "", nil
}
