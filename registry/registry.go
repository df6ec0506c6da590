package registry

import (
	"log/slog"
	"sync"
	"time"
)

// Handle is an open file as the registry sees it. Close is called once, and again only after it failed.
type Handle interface{ Close() error }

// replaceable is a handle that notices when its file was replaced or its generation lost. Replaced is asked at
// every Acquire under the registry's lock, so it must be a look at a flag: no I/O, no lock that waits.
type replaceable interface{ Replaced() bool }

// loser is a handle that notices when its generation was lost: what it holds is not on disk any more. Lost is asked
// like Replaced.
type loser interface{ Lost() bool }

// idler is a handle that can let go of what it has not used for a while.
type idler interface{ DropIdle() }

// The defaults of Options.
const (
	DefaultAcquireTimeout = 30 * time.Second // an open waits for at most a few busy timeouts of SQLite
	DefaultCloseTimeout   = 60 * time.Second // a close may have to move a whole WAL
	DefaultSweep          = 30 * time.Second // the same idle time after which readers are dropped
)

// Options of a Registry; the zero value works.
type Options struct {
	Log            *slog.Logger
	AcquireTimeout time.Duration // bounds the slow path of Acquire; a nearer deadline of the context wins
	CloseTimeout   time.Duration // bounds CloseAll at the end of Run
	Sweep          time.Duration // how often Run retries stranded closes and drops idle readers
	Trace          bool          // keep the stack of each Acquire, to name leaks; costs an allocation each
}

// Registry shares handles by path. It is safe for concurrent use.
type Registry struct {
	log            *slog.Logger
	acquireTimeout time.Duration
	closeTimeout   time.Duration
	sweep          time.Duration
	trace          bool

	mu     sync.Mutex
	paths  map[string]*entry // by resolved path
	names  map[string]*entry // by the name that callers used, while the entry has a current generation
	closed bool              // Run has ended: nothing is opened any more
	keeps  map[*keeper]struct{}
	kick   chan struct{} // heal now
}

// New makes an empty registry.
func New(o Options) *Registry {
	r := &Registry{
		log: o.Log, trace: o.Trace,
		acquireTimeout: or(o.AcquireTimeout, DefaultAcquireTimeout),
		closeTimeout:   or(o.CloseTimeout, DefaultCloseTimeout),
		sweep:          or(o.Sweep, DefaultSweep),
		paths:          map[string]*entry{}, names: map[string]*entry{},
		keeps: map[*keeper]struct{}{}, kick: make(chan struct{}, 1),
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r
}

func or(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}
