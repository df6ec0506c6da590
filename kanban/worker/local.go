package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

// Local starts workers on this machine, each under a keeper that outlives the daemon.
type Local struct {
	Reaper  *reaper.Reaper
	Environ config.Environ // the daemon's environment, of which workers see what is allowed
	RunsDir string         // per-run directories, as in Job
	Signer  Signer         // makes the tokens by which workers speak over HTTP; the zero one makes none
	MCPURL  string         // where they are good
}

var _ Launcher = (*Local)(nil)

// Launch writes the run's files and starts its keeper. It returns when the worker's program runs.
func (l *Local) Launch(ctx context.Context, job Job) (Running, error) {
	job.Token, job.MCPURL = l.Signer.Token(job.fence()), l.MCPURL
	layout, err := job.writeFiles()
	if err != nil {
		return nil, &LaunchError{Fault: FaultHost, Err: err}
	}
	argv, err := job.argv(layout)
	if err != nil {
		_ = os.RemoveAll(layout.dir)
		return nil, &LaunchError{Fault: FaultCard, Err: err}
	}
	process, err := l.Reaper.Start(ctx, l.spec(job, layout, argv))
	if err != nil {
		_ = l.Forget(filepath.Base(layout.dir))
		return nil, &LaunchError{Fault: faultOf(err), Err: err}
	}
	return l.running(process), nil
}

func (l *Local) spec(job Job, layout layout, argv []string) reaper.Spec {
	dir := job.Workspace
	if job.Lane.Workdir != "" {
		dir = job.Lane.Workdir
	}
	return reaper.Spec{
		ID: filepath.Base(layout.dir), Argv: argv, Dir: dir, Env: environment(l.Environ, job.Lane, runEnv(job, layout)),
		Lifetime: reaper.Outlives, LogPath: job.LogPath, LogMax: job.LogMax, Deadline: job.MaxRuntime, Grace: job.Lane.KillGrace,
	}
}

// Adopt finds the keeper of an earlier life by its record.
func (l *Local) Adopt(id string) (Running, error) {
	process, err := l.Reaper.Adopt(id)
	switch {
	case errors.Is(err, reaper.ErrNoRecord), problem.Is(err, problem.Invalid): // an id that no worker can have
		return nil, fmt.Errorf("adopt worker %.80q: %w", id, ErrUnknown)
	case err != nil:
		return nil, &AdoptError{Lives: l.Lives(id), Err: err}
	}
	return l.running(process), nil
}

// Lives looks for the tag that every process of a worker has in its environment.
func (l *Local) Lives(id string) bool {
	pids, err := procfs.Tagged(reaper.TagKey, id)
	return len(pids) > 0 || err != nil
}

func (l *Local) running(p *reaper.Process) running { return running{p, outputIn(l.runDir(p.ID()))} }

func (l *Local) runDir(id string) string { return filepath.Join(l.RunsDir, id) }

// Forget removes the run's directory and the keeper's record.
func (l *Local) Forget(id string) error {
	if CheckID(id) != nil {
		return nil // a board may hold anything; this names no directory of ours
	}
	err := os.RemoveAll(l.runDir(id))
	if ferr := l.Reaper.Forget(id); ferr != nil && !errors.Is(ferr, reaper.ErrNoRecord) {
		err = errors.Join(err, ferr)
	}
	if err != nil {
		return fmt.Errorf("forget worker: %w", err)
	}
	return nil
}

// faultOf: a program that is not there or cannot run is the lane's fault, words that are too long are the card's,
// and everything else is the host's, because it would meet the next card as well.
func faultOf(err error) Fault {
	if errors.Is(err, syscall.E2BIG) {
		return FaultCard
	}
	for _, unfit := range []error{syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP} {
		if _, ok := errors.AsType[*reaper.StartError](err); ok && errors.Is(err, unfit) {
			return FaultProgram
		}
	}
	return FaultHost
}

// running is a keeper's process in the dispatcher's words.
type running struct {
	*reaper.Process
	output output
}

func (r running) PID() int                 { return r.Child().PID }
func (r running) Fingerprint() string      { return procfs.Fingerprint(r.Child().PID) }
func (r running) Stop(grace time.Duration) { r.Process.Stop(grace) }
func (r running) Output() string           { return r.output.tail() }
func (r running) Exit() Exit               { return exitOf(r.Record()) }

func exitOf(rec reaper.Record) Exit {
	exit := Exit{
		Code: rec.Code, Signal: rec.Signal, Error: rec.Error, PID: rec.Child.PID, Ended: rec.Ended,
		CPU: rec.UserTime + rec.SystemTime, MaxRSS: rec.MaxRSS, Kind: exitKinds[rec.Reason],
	}
	if !rec.Ended.IsZero() && !rec.Started.IsZero() {
		exit.Ran = rec.Ended.Sub(rec.Started)
	}
	if rec.Reason == reaper.KeeperLost && rec.Keeper.Known() && rec.Keeper.Boot != procfs.BootID() {
		exit.Kind = HostEnded
	}
	return exit
}

var exitKinds = map[reaper.Reason]ExitKind{
	reaper.Exited: Exited, reaper.Signaled: Signaled, reaper.Deadline: Deadline, reaper.Stopped: Stopped,
	reaper.DaemonGone: NotStarted, reaper.StartFailed: StartFailed, reaper.KeeperLost: Lost,
}

// GitBy runs git under the reaper, bounded, for worktree cards.
func GitBy(r *reaper.Reaper, environ config.Environ) func(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return func(ctx context.Context, dir string, args ...string) ([]byte, error) {
		out, rec, err := r.Output(ctx, reaper.Spec{
			Argv: append([]string{"git"}, args...), Dir: dir, Env: environment(environ, Lane{}, []string{"GIT_TERMINAL_PROMPT=0"}), Deadline: time.Minute,
		})
		switch {
		case err != nil:
			return out, err
		case rec.Reason != reaper.Exited || rec.Code != 0:
			return out, fmt.Errorf("git %s: %s, code %d", args[0], rec.Reason, rec.Code)
		}
		return out, nil
	}
}
