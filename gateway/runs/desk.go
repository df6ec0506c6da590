package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/tool"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Defaults of Options.
const (
	DefaultKeep          = 24 * time.Hour      // a client that was away over night still learns how its run ended
	DefaultKeepResponses = 30 * 24 * time.Hour // as long as the service that clients know keeps them
	MostKept             = 2_000               // ended runs
	MostResponses        = 10_000
)

const (
	sweepEvery = 10 * time.Minute
	lookEvery  = 20 * time.Second // at runs whose turn may have ended without a word
	retryEvery = time.Second      // a store that takes nothing is tried again
)

// Store is what is needed of sessiondb.Store, which see.
type Store interface {
	AppendRun(ctx context.Context, id string, change sessiondb.RunChange, events []sessiondb.RunEvent) ([]sessiondb.RunEvent, error)
	Run(ctx context.Context, id string) (sessiondb.Run, error)
	Runs(ctx context.Context, f sessiondb.RunFilter) ([]sessiondb.Run, error)
	RunEvents(ctx context.Context, id string, after int64, limit int) ([]sessiondb.RunEvent, error)
	KeepRuns(ctx context.Context, age time.Duration, most int) (int, error)
	KeepResponses(ctx context.Context, age time.Duration, most int) (int, error)
	Pendings(ctx context.Context) ([]sessiondb.Pending, error)
	Inbox(ctx context.Context, session string) ([]sessiondb.Waiting, error)
	TurnOf(ctx context.Context, uid string) ([]sessiondb.Message, error)
}

// Chat is the conversations: gateway.Gateway.
type Chat interface {
	Post(ctx context.Context, say gateway.Say) (gateway.Accepted, error)
	Steer(ctx context.Context, session, text string) (gateway.Accepted, error)
	Attach(session string, sink func(gateway.Event)) (wait func(ctx context.Context) error)
	Withdraw(ctx context.Context, session, uid string) (bool, error)
	InterruptMessage(session, uid string, cause error) bool
}

// Approvals is what waits for a person: gateway.Approvals.
type Approvals interface {
	List(ctx context.Context, f sessiondb.ApprovalFilter) ([]gateway.Approval, error)
	Decide(ctx context.Context, id string, choice tool.Choice, by string) (gateway.Approval, error)
}

// Options configure a Desk. Store and Chat are needed.
type Options struct {
	Store     Store
	Chat      Chat
	Approvals Approvals // nil: nobody is asked

	Most          int           // open runs at once; 0 is no limit
	Keep          time.Duration // how long an ended run is kept; 0: DefaultKeep
	KeepResponses time.Duration // 0: DefaultKeepResponses
	Reasoning     bool          // show the model's reasoning

	Log *slog.Logger
}

// Desk is where runs are begun, watched, steered and ended. It is safe for concurrent use.
type Desk struct {
	opts Options
	life context.Context // of the followers
	end  context.CancelFunc

	mu        sync.Mutex
	open      map[string]*follower // by run
	starting  int                  // places taken by runs that are being begun
	found     bool                 // the runs of an earlier process are followed
	following sync.WaitGroup
}

// New makes a desk. Recover and then Run give it life.
func New(o Options) *Desk {
	o.Keep, o.KeepResponses = cmp.Or(o.Keep, DefaultKeep), cmp.Or(o.KeepResponses, DefaultKeepResponses)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Desk{opts: o, open: map[string]*follower{}}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// Run looks after the runs until ctx ends, which has to be after the conversations have drained: what they show until then is stored.
func (d *Desk) Run(ctx context.Context) error {
	defer d.following.Wait()
	defer d.end()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	d.sweep(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			d.sweep(ctx)
		case <-look.C:
			d.look()
		case <-retry.C:
			if d.Recover(ctx) == nil {
				retry.Stop()
			}
		}
	}
}

// Recover takes up the runs that an earlier process left open. It is called after gateway.Recover, which decides about their turns, and
// before gateway.Run, so that nothing of a turn that goes on is missed; Run calls it again after an error.
func (d *Desk) Recover(ctx context.Context) error {
	d.mu.Lock()
	done := d.found
	d.mu.Unlock()
	if done {
		return nil
	}
	list, err := d.opts.Store.Runs(ctx, sessiondb.RunFilter{Open: true})
	if err != nil {
		d.opts.Log.Warn("open runs are not known yet", "error", err)
		return err
	}
	for _, run := range list {
		d.take(run, true)
	}
	d.mu.Lock()
	d.found = true
	d.mu.Unlock()
	if len(list) > 0 {
		d.opts.Log.Info("open runs found", "runs", len(list))
	}
	return nil
}

// take begins to follow a run, unless it is followed. When it returns no event of its turn is missed.
func (d *Desk) take(run sessiondb.Run, found bool) *follower {
	d.mu.Lock()
	f, known := d.open[run.ID]
	if !known {
		f = newFollower(d, run)
		f.accepted.Store(found)
		d.open[run.ID] = f
		d.following.Add(1)
	}
	d.mu.Unlock()
	if !known {
		f.attach()
		go f.work(found)
	}
	return f
}

func (d *Desk) leave(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, id)
	d.following.Done()
}

func (d *Desk) follower(id string) *follower {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open[id]
}

func (d *Desk) look() {
	d.mu.Lock()
	var all []*follower
	for _, f := range d.open {
		all = append(all, f)
	}
	d.mu.Unlock()
	for _, f := range all {
		f.look(false)
	}
}

// sweep forgets what is old.
func (d *Desk) sweep(ctx context.Context) {
	runs, err := d.opts.Store.KeepRuns(ctx, d.opts.Keep, MostKept)
	responses, err2 := d.opts.Store.KeepResponses(ctx, d.opts.KeepResponses, MostResponses)
	if err := cmp.Or(err, err2); err != nil && ctx.Err() == nil {
		d.opts.Log.Warn("old runs not forgotten, it is tried again", "error", err)
		return
	}
	if runs+responses > 0 {
		d.opts.Log.Info("old runs forgotten", "runs", runs, "responses", responses)
	}
}

// Ask is a run that somebody wants.
type Ask struct {
	Owner    string // id of the key
	Model    string // as the client named it
	Response string // the response that it makes, if it does
	Say      gateway.Say
}

// Start accepts a message as a run. Its session exists. When it returns without an error the run is stored together with its message and what is
// asked of its answers, and its turn comes, whatever happens. A Busy problem when as many are open as may be.
func (d *Desk) Start(ctx context.Context, ask Ask) (sessiondb.Run, error) {
	if err := d.enter(); err != nil {
		return sessiondb.Run{}, err
	}
	defer d.entered()
	run := sessiondb.Run{
		ID: "run_" + strings.ToLower(rand.Text()), Session: ask.Say.Session, Owner: ask.Owner, UID: ask.Say.UID, Response: ask.Response, Model: ask.Model,
		Status: sessiondb.RunQueued, CreatedAt: time.Now(),
	}
	if run.UID == "" {
		run.UID = run.ID
	}
	if ask.Say.Wishes.Any() {
		request, err := json.Marshal(ask.Say.Wishes)
		if err != nil {
			return sessiondb.Run{}, err
		}
		run.Request = request
	}
	ask.Say.UID, ask.Say.Detached = run.UID, true
	ask.Say.Run = &sessiondb.NewRun{Run: run, First: event(run.ID, EventQueued, map[string]any{"session_id": run.Session})}
	f := d.take(run, false) // before its turn can begin
	if _, err := d.opts.Chat.Post(ctx, ask.Say); err != nil {
		f.drop()
		return sessiondb.Run{}, err
	}
	f.accepted.Store(true)
	return run, nil
}

// enter takes a place for a run that is being begun.
func (d *Desk) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if open := len(d.open) + d.starting; d.opts.Most > 0 && open >= d.opts.Most {
		return &problem.Error{
			Kind: problem.Busy, Thing: "the run", What: fmt.Sprintf("is one too many: %d are open already (api.max_concurrent_runs)", open),
			Fate: "nothing was stored", Remedy: "wait until one has ended",
		}
	}
	d.starting++
	return nil
}

func (d *Desk) entered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starting--
}

// Get gives one run of an owner; a NotFound problem when there is none, or when it is somebody else's.
func (d *Desk) Get(ctx context.Context, owner, id string) (sessiondb.Run, error) {
	run, err := d.opts.Store.Run(ctx, id)
	if err == nil && run.Owner != owner {
		err = &problem.Error{Kind: problem.NotFound, Thing: fmt.Sprintf("run %.80q", id), What: "does not exist"}
	}
	return run, err
}

// List gives runs, the newest first.
func (d *Desk) List(ctx context.Context, f sessiondb.RunFilter) ([]sessiondb.Run, error) {
	return d.opts.Store.Runs(ctx, f)
}
