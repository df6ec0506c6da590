package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
)

// Options are what a Reaper needs; the zero value of each but Dir works.
type Options struct {
	Dir    string       // where the records are; made if it is missing
	Shared string       // where those of runs that outlive the daemon are, for all daemons that may take such a run over; empty means Dir
	Exe    string       // the binary that runs keepers; empty means the running one
	Log    *slog.Logger // nil means silence
	Spares int          // keepers kept warm by Run; 0 means 1, negative means none
}

// Reaper starts children and knows how they ended.
type Reaper struct {
	store  store
	shared store
	exe    string
	log    *slog.Logger
	spares int

	foreign map[int]uint64    // by pid, with their start: children that came with this process through exec
	aging   map[int]time.Time // by pid: dead children in our own session, since when they are seen; guarded by children.mu

	mu        sync.Mutex
	live      map[string]*Process
	pool      []*keeperProc
	exiting   map[*keeperProc]bool // their run is over
	closed    bool                 // Run has returned: no spare is wanted any more
	refill    chan struct{}
	spareDied chan struct{}
}

// New makes a Reaper and makes this process a subreaper, so that the orphans of a killed keeper come to it.
func New(o Options) (*Reaper, error) {
	if err := checkKernel(); err != nil {
		return nil, &problem.Error{
			Kind: problem.Unavailable, Thing: "the kernel", What: "cannot name a process safely (pidfd)", Err: err,
			Fate: "nothing was started", Remedy: "run on Linux 5.4 or newer",
		}
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve records: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make records: %w", err)
	}
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}
	shared, err := filepath.Abs(cmp.Or(o.Shared, dir))
	if err != nil {
		return nil, fmt.Errorf("resolve shared records: %w", err)
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Reaper{
		store: store{dir: dir}, shared: store{dir: shared}, exe: cmp.Or(o.Exe, selfExe), log: log, spares: max(cmp.Or(o.Spares, 1), 0),
		live: map[string]*Process{}, exiting: map[*keeperProc]bool{}, refill: make(chan struct{}, 1), spareDied: make(chan struct{}, 1),
	}
	return r, r.takeStock()
}

// takeStock notes who is a child of this process without having been started here: not ours to end.
func (r *Reaper) takeStock() error {
	children.mu.Lock()
	defer children.mu.Unlock()
	pids, err := procfs.Children(os.Getpid())
	if err != nil {
		return fmt.Errorf("list inherited children: %w", err)
	}
	r.foreign = make(map[int]uint64, len(pids))
	for _, pid := range pids {
		if stat, err := procfs.ReadStat(pid); err == nil && children.known[pid] == nil {
			r.foreign[pid] = stat.Start
		}
	}
	return nil
}

// ErrNoRecord says that no run of this id is known.
var ErrNoRecord = errors.New("no record of this run")

// Records gives every run that was not forgotten, in no particular order: how it ended, or, with a zero Ended, how
// it was started. A file that cannot be read is told in the error, beside all others.
func (r *Reaper) Records() (all []Record, err error) {
	for _, s := range r.stores() {
		list, broken := s.list()
		if s == r.shared && errors.Is(broken, fs.ErrNotExist) {
			continue // nothing that outlives a daemon was started yet
		}
		all, err = append(all, list...), errors.Join(err, broken)
	}
	return all, err
}

// stores are the directories that a run's record may be in, the shared one first.
func (r *Reaper) stores() []store {
	if r.shared == r.store {
		return []store{r.store}
	}
	return []store{r.shared, r.store}
}

// storeOf is where the records of such runs are written. The shared directory lies in what is only opened after this
// Reaper was made, so it is made with the first run.
func (r *Reaper) storeOf(l Lifetime) (store, error) {
	if l != Outlives || r.shared == r.store {
		return r.store, nil
	}
	if err := os.MkdirAll(r.shared.dir, 0o700); err != nil {
		return store{}, fmt.Errorf("make records: %w", err)
	}
	return r.shared, nil
}

// Forget removes the record of a run that is accounted for. A run that goes on is not forgotten.
func (r *Reaper) Forget(id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	r.mu.Lock()
	p := r.live[id]
	r.mu.Unlock()
	if p != nil {
		return &problem.Error{Kind: problem.Conflict, Thing: "run " + quote(id), What: "has not ended", Fate: "its record was kept"}
	}
	for _, s := range r.stores() {
		if err := s.forget(id); err != nil {
			return err
		}
	}
	return nil
}

// Start returns when the child runs, or with a *StartError when it cannot. The context bounds the start alone; when
// it ends during the start, what was started is ended again.
func (r *Reaper) Start(ctx context.Context, spec Spec) (*Process, error) {
	records, err := r.storeOf(spec.Lifetime)
	if err != nil {
		return nil, err
	}
	cmd, err := newCommand(spec, records.dir)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("start %s: %w", spec.ID, context.Cause(ctx))
	}
	return r.start(ctx, cmd, spec)
}

func (r *Reaper) start(ctx context.Context, cmd command, spec Spec) (*Process, error) {
	p := newProcess(r, cmd.ID)
	p.store, p.lifetime = store{dir: cmd.Records}, cmd.Lifetime
	if err := r.enter(p); err != nil {
		return nil, err
	}
	defer close(p.ready)
	if err := r.begin(ctx, p, cmd, spec); err != nil {
		r.leave(p)
		return nil, err
	}
	return p, nil
}

// enter takes the id, which belongs to one run until it is forgotten.
func (r *Reaper) enter(p *Process) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[p.id] != nil || slices.ContainsFunc(r.stores(), func(s store) bool { return s.known(p.id) }) {
		return &problem.Error{
			Kind: problem.Conflict, Thing: "run " + quote(p.id), What: "exists already", Fate: "nothing was started",
			Remedy: "use an id once, or forget its record first",
		}
	}
	r.live[p.id] = p
	return nil
}

func (r *Reaper) leave(p *Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[p.id] == p {
		delete(r.live, p.id)
	}
}

// parting notes keepers between the end of their run and their own.
func (r *Reaper) parting(k *keeperProc, begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if begins {
		r.exiting[k] = true
	} else {
		delete(r.exiting, k)
	}
}

// begin hands the command to the warm spare, else to a keeper started for it. A spare that died while it waited
// costs one more try; nothing of the first one is left by then.
func (r *Reaper) begin(ctx context.Context, p *Process, cmd command, spec Spec) error {
	if spare := r.takeSpare(); spare != nil {
		defer r.refillSoon()
		err := p.hand(ctx, spare, cmd, spec.Output)
		if !errors.Is(err, errKeeperDied) {
			return err
		}
		r.log.Warn("spare keeper had died", "pid", spare.pid, "run", cmd.ID)
	}
	keeper, err := r.launch()
	if err != nil {
		return startError(cmd.Argv[0], &problem.Error{
			Kind: problem.Unavailable, Thing: "keeper of " + quote(cmd.ID), What: "could not be started", Err: err,
			Fate: "nothing was started", Remedy: "look at the limits of processes and memory",
		})
	}
	return p.hand(ctx, keeper, cmd, spec.Output)
}
