package reaper

import (
	"io"
	"regexp"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// Lifetime says what the daemon's end means for a child.
type Lifetime int

const (
	Outlives       Lifetime = iota // a worker: goes on without the daemon
	EndsWithDaemon                 // a terminal command: ends at the end of file of the daemon's socket
)

const (
	// DefaultLogMax is what one generation of a log may hold; with the one old generation beside it a log takes
	// twice this at most.
	DefaultLogMax = 2 << 20
	// DefaultGrace is what a tree gets between SIGTERM and SIGKILL, as the boards' own protocol has it.
	DefaultGrace = 5 * time.Second
	// TagKey is the variable that marks every process of a tree with the id of its keeper.
	TagKey = "GATEWAYD_KEEPER"
)

// Spec describes one child.
type Spec struct {
	ID       string        // unique, [a-z0-9_-]{1,64}; names the record and tags the tree
	Argv     []string      // never a shell string; Argv[0] is looked up in the PATH of Env
	Dir      string        // must exist; empty means /
	Env      []string      // complete: nothing is inherited
	Lifetime Lifetime      //
	LogPath  string        // Outlives: stdout and stderr are appended here; empty discards them
	LogMax   int64         // bytes of one generation; 0 means DefaultLogMax
	Output   io.Writer     // EndsWithDaemon: receives stdout and stderr as they come, from one goroutine; nil discards
	Deadline time.Duration // from the start of the child; 0 means none
	Grace    time.Duration // between SIGTERM and SIGKILL; 0 means DefaultGrace
}

// Reason says what ended a child.
type Reason string

const (
	Exited      Reason = "exited"       // by itself; Code says how
	Signaled    Reason = "signaled"     // by a signal that was not ours
	Deadline    Reason = "deadline"     // Spec.Deadline had passed
	Stopped     Reason = "stopped"      // Stop was called, or the keeper got SIGTERM
	DaemonGone  Reason = "daemon-gone"  // the daemon died before it said go; of an EndsWithDaemon keeper at any time
	StartFailed Reason = "start-failed" // the program could not be started
	KeeperLost  Reason = "keeper-lost"  // the keeper died without a record; how the leader ended is not known
)

// Record says how a child ended. A record whose Ended is zero is the one written at the start.
type Record struct {
	ID         string          `json:"id"`
	Keeper     procfs.Identity `json:"keeper"`
	Child      procfs.Identity `json:"child"`
	Started    time.Time       `json:"started"`
	Ended      time.Time       `json:"ended,omitzero"`
	Code       int             `json:"code"`   // exit code of the leader; -1 where it has none
	Signal     int             `json:"signal"` // the signal that killed the leader, or 0
	Reason     Reason          `json:"reason,omitempty"`
	Error      string          `json:"error,omitempty"`
	UserTime   time.Duration   `json:"user_ns"`       // of the whole tree
	SystemTime time.Duration   `json:"system_ns"`     // of the whole tree
	MaxRSS     int64           `json:"max_rss_bytes"` // of the largest process; not less than the keeper's own, which the kernel counts in
	Rounds     int             `json:"rounds"`        // rounds of signals until nothing was left
	Grace      time.Duration   `json:"grace_ns"`      // of the Spec, for the daemon that has to end the tree itself
}

var idPattern = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

func checkID(id string) error {
	if idPattern.MatchString(id) {
		return nil
	}
	return &problem.Error{
		Kind: problem.Invalid, Thing: "keeper id " + quote(id), What: "is not made of a-z, 0-9, _ and -, 64 at most",
		Fate: "nothing was started",
	}
}
