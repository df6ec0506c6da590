package slash

import (
	"context"
	"errors"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// Store is what commands need of sessiondb.Store.
type Store interface {
	Session(ctx context.Context, id string) (sessiondb.Session, error)
	Sessions(ctx context.Context, f sessiondb.ListFilter) ([]sessiondb.Session, error)
	Find(ctx context.Context, text string) ([]sessiondb.Session, error)
	Search(ctx context.Context, q sessiondb.Query) ([]sessiondb.Hit, error)
	CreateSession(ctx context.Context, n sessiondb.NewSession) (sessiondb.Session, error)
	BeginAnew(ctx context.Context, l sessiondb.Lease, n sessiondb.NewSession) (sessiondb.Anew, error)
	Bind(ctx context.Context, key, session string) (sessiondb.Session, error)
	SetTitle(ctx context.Context, id, title string) error
	Settings(ctx context.Context, session string) (sessiondb.Settings, error)
	ChangeSettings(ctx context.Context, session string, change func(*sessiondb.Settings)) (sessiondb.Settings, error)
	Usage(ctx context.Context, session string) (sessiondb.Usage, error)
	Transcript(ctx context.Context, session string) ([]sessiondb.Message, error)
	RewindTurns(ctx context.Context, l sessiondb.Lease, turn int) (sessiondb.Rewound, error)
	Inbox(ctx context.Context, session string) ([]sessiondb.Waiting, error)
	Prompt(ctx context.Context, hash string) (string, error)
	AcquireTurn(ctx context.Context, session string, h sessiondb.Holder, ttl time.Duration) (sessiondb.Lease, error)
	TryTurn(ctx context.Context, session string, h sessiondb.Holder, ttl time.Duration) (sessiondb.Lease, error)
	Release(ctx context.Context, l sessiondb.Lease) error
}

// Conversations is what commands need of gateway.Gateway.
type Conversations interface {
	Status() gateway.Status
	Interrupt(session string, cause error) bool
	Forget(session string, cause error) int
	Post(ctx context.Context, say gateway.Say) (gateway.Accepted, error)
	Steer(ctx context.Context, session, text string) (gateway.Accepted, error)
	Compress(ctx context.Context, session string, c gateway.Compress) (gateway.Compressed, error)
	Window(ctx context.Context, session string) (gateway.Window, error)
}

// Approvals is what a person is asked: gateway.Approvals.
type Approvals interface {
	List(ctx context.Context, f sessiondb.ApprovalFilter) ([]gateway.Approval, error)
	Decide(ctx context.Context, id string, choice tool.Choice, by string) (gateway.Approval, error)
	Answer(ctx context.Context, session, text, by string) (gateway.Approval, bool, error)
}

// Background ends what tools left running for a conversation: tool.Set.
type Background interface {
	StopSession(ctx context.Context, session string) int
}

// Options are what a Runner works with. Store, Gateway and Model are needed.
type Options struct {
	Store      Store
	Gateway    Conversations
	Approvals  Approvals  // nil: nothing is ever asked
	Background Background // nil: there is nothing in the background

	Model        func() provider.Description               // the configured one
	Models       func(name string) (provider.Model, error) // finds another by its name; nil: there is only the configured one
	ModelNames   func() []string                           // what Models is known to find; nil: unknown
	ResetBreaker func(model string)                        // lets calls through to a server that was left alone; nil: there is none
	SystemPrompt string                                    // for a conversation that begins; empty: gateway.DefaultSystemPrompt
}

// Runner runs commands. It is safe for concurrent use.
type Runner struct{ Options }

// New makes a Runner.
func New(o Options) *Runner {
	if o.SystemPrompt == "" {
		o.SystemPrompt = gateway.DefaultSystemPrompt
	}
	return &Runner{o}
}

// Run runs a text as a command. false: it is none and is to be said. A plain yes or no is one, too, while exactly one tool of the
// session waits for it. An error (*problem.Error) means that nothing was changed,
// unless it says otherwise.
func (r *Runner) Run(ctx context.Context, c Context, text string) (Reply, bool, error) {
	line, ok, err := Parse(text)
	if err == nil && !ok && r.Approvals != nil {
		var decided gateway.Approval
		if decided, ok, err = r.Approvals.Answer(ctx, c.Session, text, c.Source); ok {
			return Reply{Session: c.Session, Text: verdict(decided), Data: decided}, true, err
		}
	}
	if !ok || err != nil {
		return Reply{Session: c.Session}, ok, err
	}
	reply, err := r.run(ctx, c, line)
	return reply, true, err
}

// RunLine is Run for a text that can only be a command; its slash may be missing.
func (r *Runner) RunLine(ctx context.Context, c Context, text string) (Reply, error) {
	line, err := ParseLine(text)
	if err != nil {
		return Reply{Session: c.Session}, err
	}
	return r.run(ctx, c, line)
}

func (r *Runner) run(ctx context.Context, c Context, line Line) (Reply, error) {
	if line.Command.Busy == Idle && !mutation.On("commands-do-not-ask-whether-a-turn-runs") {
		if turn, busy := r.running(c.Session); busy {
			return Reply{Session: c.Session}, errBusy(line.Command, turn)
		}
	}
	if line.Args != "" && line.Command.Args == "" && line.Command.Name != "stop" { // who is in a hurry is stopped, whatever follows
		return Reply{Session: c.Session}, errUsage(line.Command, "takes nothing after its name")
	}
	reply, err := verbs[line.Command.Name](r, ctx, c, line)
	if reply.Session == "" {
		reply.Session = c.Session
	}
	return reply, err
}

// window is what is known of a conversation's context; of one that does not exist, what is known of the model.
func (r *Runner) window(ctx context.Context, session string) (gateway.Window, error) {
	w, err := r.Gateway.Window(ctx, session)
	if errors.Is(err, sessiondb.ErrSessionMissing) {
		about := r.Model()
		return gateway.Window{Model: about.Name, Tokens: about.ContextLength, Origin: about.WindowFrom}, nil
	}
	return w, err
}

type verb func(r *Runner, ctx context.Context, c Context, line Line) (Reply, error)

// verbs are what the commands do, by name.
var verbs = map[string]verb{
	"new": (*Runner).begin, "undo": (*Runner).undo, "retry": (*Runner).retry, "compress": (*Runner).compress,
	"status": (*Runner).status, "stop": (*Runner).stop, "model": (*Runner).model, "resume": (*Runner).resume,
	"sessions": (*Runner).sessions, "title": (*Runner).title, "usage": (*Runner).usage, "queue": (*Runner).queue,
	"steer": (*Runner).steer, "approve": (*Runner).approve, "deny": (*Runner).deny, "busy": (*Runner).busy, "help": help,
}

// running gives the turn of a session that is under way in this process.
func (r *Runner) running(session string) (gateway.RunningTurn, bool) {
	for _, turn := range r.Gateway.Status().Running {
		if turn.Session == session {
			return turn, true
		}
	}
	return gateway.RunningTurn{}, false
}

func errBusy(c Command, turn gateway.RunningTurn) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: "/" + c.Name,
		What: "cannot run beside " + whatRuns(turn), Fate: "nothing was changed", Remedy: "wait for its end, or end it with /stop",
	}
}

// whatRuns names a turn, or the compaction that a person asked for, and how long it runs.
func whatRuns(turn gateway.RunningTurn) string {
	what := "a turn"
	if turn.Phase == gateway.PhaseCompact {
		what = "a compaction"
	}
	return what + "; one runs since " + ago(turn.Since)
}

// errNothing is for commands that need something that was said.
func errNothing(c Command, session string) error {
	return &problem.Error{
		Kind: problem.NotFound, Thing: "/" + c.Name, What: "has nothing to work on: nothing was said in " + sessionName(session), Fate: "nothing was changed",
	}
}

func sessionName(session string) string {
	if session == "" {
		return "this conversation"
	}
	return "session " + session
}

// holding runs do under the turn lease of a session, so that no turn, of this process or another, is cut in two. It waits for the
// lease as long as wait says; not at all when it is 0.
func (r *Runner) holding(ctx context.Context, session, what string, wait time.Duration, do func(sessiondb.Lease) error) (err error) {
	holder, err := sessiondb.SelfHolder(what)
	if err != nil {
		return err
	}
	take := r.Store.TryTurn
	if wait > 0 {
		take = r.Store.AcquireTurn
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	lease, err := take(ctx, session, holder, leaseFor)
	if err != nil {
		return err
	}
	defer func() {
		if released := r.Store.Release(context.WithoutCancel(ctx), lease); err == nil {
			err = released
		}
	}()
	return do(lease)
}

// leaseFor is long enough for what commands do under a lease; nobody renews it.
const leaseFor = 2 * time.Minute
