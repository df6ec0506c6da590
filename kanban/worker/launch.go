package worker

import (
	"context"
	"errors"
	"time"
)

// Launcher starts workers somewhere. Local does it on this machine.
type Launcher interface {
	// Launch returns when the worker runs; its errors are *LaunchError.
	Launch(ctx context.Context, job Job) (Running, error)
	// Adopt finds a worker that an earlier life of the daemon started. One that ended meanwhile is Done at once.
	// ErrUnknown says that no such worker was ever started; any other error is an *AdoptError.
	Adopt(id string) (Running, error)
	// Lives reports whether a process of that worker is seen, or cannot be ruled out, whoever started it and whether or
	// not there is word of it. It costs a look at every process of the machine.
	Lives(id string) bool
	// Forget drops what is kept of an ended worker, after its end has been written to the board.
	Forget(id string) error
}

// ErrUnknown says that there is no worker by that id, dead or alive.
var ErrUnknown = errors.New("no such worker was started")

// AdoptError says that there is word of a worker, and that it cannot be read.
type AdoptError struct {
	Lives bool // a process of it is seen
	Err   error
}

func (e *AdoptError) Error() string { return "adopt worker: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *AdoptError) Unwrap() error { return e.Err }

// Running is one worker. All methods are safe for concurrent use.
type Running interface {
	ID() string
	PID() int            // the worker's own process, as the board shows it
	Fingerprint() string // of that process, in the board's words
	Done() <-chan struct{}
	Exit() Exit // after Done
	// Output is the end of what this run, and no earlier one of its card, wrote.
	Output() string
	// Stop asks for the end of the whole tree: TERM, grace, KILL until nothing is left. It does not wait.
	Stop(grace time.Duration)
	Alive() bool
}

// Exit is how a worker ended.
type Exit struct {
	Kind   ExitKind
	Code   int
	Signal int
	Error  string
	PID    int
	Ended  time.Time
	Ran    time.Duration
	CPU    time.Duration
	MaxRSS int64 // bytes
}

// ExitKind names the ways to end.
type ExitKind string

const (
	Exited      ExitKind = "exited"
	Signaled    ExitKind = "signaled"
	Deadline    ExitKind = "deadline" // its time was up
	Stopped     ExitKind = "stopped"  // asked to end by us
	StartFailed ExitKind = "start_failed"
	NotStarted  ExitKind = "not_started" // the daemon died before its program was started
	Lost        ExitKind = "keeper_lost" // its keeper was killed; nobody saw the exit code
	HostEnded   ExitKind = "host_ended"  // the machine or the container restarted under it
)

// Fault says whose fault a failed launch was.
type Fault string

const (
	FaultCard    Fault = "card"    // this card cannot be started; the next one may
	FaultProgram Fault = "program" // the lane's program is not there or cannot run
	FaultHost    Fault = "host"    // no memory, no processes, no space: nothing can be started now
)

// LaunchError says why a worker could not be started, and whose fault that was.
type LaunchError struct {
	Fault Fault
	Err   error
}

func (e *LaunchError) Error() string { return "start worker: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *LaunchError) Unwrap() error { return e.Err }
