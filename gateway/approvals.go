package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"gatewayd/gateway/keys"
	"gatewayd/gateway/tool"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// DefaultApprovalTimeout is how long a person has to answer. It is shorter than what clients and proxies wait for a turn, and a
// refusal can be asked about again.
const DefaultApprovalTimeout = 60 * time.Second

const (
	approvalBeat = 10 * time.Second // a turn that waits for a person is no stalled turn
	deciderMax   = 64               // bytes of the name under which somebody decides
)

// Approval is the record of one question to a person; see sessiondb.
type Approval = sessiondb.Approval

// ApprovalStore is what Approvals need of sessiondb.Store, which see.
type ApprovalStore interface {
	AskApproval(ctx context.Context, a sessiondb.Approval, wait time.Duration) (sessiondb.Approval, error)
	DecideApproval(ctx context.Context, id string, v sessiondb.Verdict) (sessiondb.Approval, bool, error)
	Approvals(ctx context.Context, f sessiondb.ApprovalFilter) ([]sessiondb.Approval, error)
	Approval(ctx context.Context, id string) (sessiondb.Approval, error)
	CloseApprovals(ctx context.Context, decision, by string) ([]sessiondb.Approval, error)
	Granted(ctx context.Context, session string, rules []string) (bool, string, error)
	Grants(ctx context.Context) ([]sessiondb.Grant, error)
	Revoke(ctx context.Context, session, rule string) error
}

// Approvals is where calls wait for a person. Each question is a record before anybody sees it, and stays one. It is safe for
// concurrent use.
type Approvals struct {
	store   ApprovalStore
	timeout time.Duration
	log     *slog.Logger

	mu      sync.Mutex
	waiting map[string]waiter // by id
}

// waiter is a call that waits in this process.
type waiter struct {
	session string
	rules   []string
	decided chan sessiondb.Approval // takes one
}

// NewApprovals makes it. A timeout of 0 means DefaultApprovalTimeout.
func NewApprovals(store ApprovalStore, timeout time.Duration, log *slog.Logger) *Approvals {
	orDefault(&timeout, DefaultApprovalTimeout)
	if log == nil {
		log = slog.Default()
	}
	return &Approvals{store: store, timeout: timeout, log: log, waiting: map[string]waiter{}}
}

// List gives approvals, the newest first.
func (a *Approvals) List(ctx context.Context, f sessiondb.ApprovalFilter) ([]Approval, error) {
	return a.store.Approvals(ctx, f)
}

// Get gives one approval.
func (a *Approvals) Get(ctx context.Context, id string) (Approval, error) {
	return a.store.Approval(ctx, id)
}

// Grants lists what is granted for sessions and for always.
func (a *Approvals) Grants(ctx context.Context) ([]sessiondb.Grant, error) {
	return a.store.Grants(ctx)
}

// Revoke takes a grant back; an empty session means the one for always. Calls that run go on.
func (a *Approvals) Revoke(ctx context.Context, session, rule, by string) error {
	err := a.store.Revoke(ctx, session, rule)
	if err == nil {
		a.log.Info("grant revoked", "session", session, "rule", rule, "by", Decider(by))
	}
	return err
}

// mayDecide refuses to approve where a caller of the API is known and its key is not for that, by whatever way the decision comes: a request, a
// command or a plain yes. Everybody may deny.
func mayDecide(ctx context.Context, choice tool.Choice) error {
	caller, known := keys.Who(ctx)
	if !known || choice == tool.ChoiceDeny || caller.Key.May(keys.Admin) {
		return nil
	}
	return &problem.Error{
		Kind: problem.Denied, Thing: "key " + caller.Key.Name, What: "may not approve what a tool asks for", Fate: "nothing was decided",
		Remedy: "decide it with a key of the scope admin, or with `gatewayd approvals`",
	}
}

// Decide settles one approval, by its id alone, and gives its record. Who comes second is told who was first, with a Conflict. A
// decision for the session or for always lets go, too, of the calls that wait for nothing else.
func (a *Approvals) Decide(ctx context.Context, id string, choice tool.Choice, by string) (Approval, error) {
	if !slices.Contains(tool.Choices, choice) {
		return Approval{}, &problem.Error{
			Kind: problem.Invalid, Thing: fmt.Sprintf("decision %.20q", choice), What: "is none of once, session, always, deny", Fate: "nothing was decided", Field: "decision",
		}
	}
	if err := mayDecide(ctx, choice); err != nil {
		return Approval{}, err
	}
	w, ok := a.waiter(id)
	if !ok {
		return a.notWaiting(ctx, id)
	}
	v := sessiondb.Verdict{State: sessiondb.ApprovalApproved, Decision: string(choice), By: Decider(by)}
	switch choice {
	case tool.ChoiceDeny:
		v.State = sessiondb.ApprovalDenied
	case tool.ChoiceSession:
		v.Grant = sessiondb.Grant{Session: w.session, Rules: w.rules}
	case tool.ChoiceAlways:
		v.Grant = sessiondb.Grant{Rules: w.rules}
	}
	out, err := a.settle(ctx, id, v)
	if err == nil && len(v.Grant.Rules) > 0 {
		a.releaseOthers(ctx, out)
	}
	return out, err
}

// settle writes a verdict and wakes the call. The record decides who was first.
func (a *Approvals) settle(ctx context.Context, id string, v sessiondb.Verdict) (Approval, error) {
	out, won, err := a.store.DecideApproval(ctx, id, v)
	if err != nil {
		return out, explained(err, "approval "+id)
	}
	a.wake(out)
	if !won {
		return out, errDecided(out)
	}
	a.log.Info("approval decided", "session", out.Session, "turn", out.Turn, "tool", out.Tool, "approval", id, "decision", out.Decision, "by", out.DecidedBy)
	return out, nil
}

// notWaiting explains why an approval cannot be decided: it has been, it does not exist, or the process that waited is gone.
func (a *Approvals) notWaiting(ctx context.Context, id string) (Approval, error) {
	out, err := a.settle(ctx, id, sessiondb.Verdict{State: sessiondb.ApprovalDenied, Decision: "restart", By: "gatewayd"})
	if err == nil {
		err = errDecided(out)
	}
	return out, err
}

// releaseOthers lets go of calls whose rules are granted now.
func (a *Approvals) releaseOthers(ctx context.Context, by Approval) {
	a.mu.Lock()
	others := map[string]waiter{}
	for id, w := range a.waiting {
		others[id] = w
	}
	a.mu.Unlock()
	for id, w := range others {
		granted, _, err := a.store.Granted(ctx, w.session, w.rules)
		if err != nil || !granted {
			continue
		}
		if _, err := a.settle(ctx, id, sessiondb.Verdict{State: sessiondb.ApprovalApproved, Decision: by.Decision, By: "grant " + by.ID}); err != nil {
			a.log.Debug("waiting call not let go by a grant", "approval", id, "error", err)
		}
	}
}

// CloseStale denies what an earlier process of this home waited for. It is called at the start, before messages are taken.
func (a *Approvals) CloseStale(ctx context.Context) ([]Approval, error) {
	closed, err := a.store.CloseApprovals(ctx, "restart", "gatewayd")
	for _, c := range closed {
		a.log.Warn("approval denied: gatewayd ended before it was given", "session", c.Session, "turn", c.Turn, "tool", c.Tool, "approval", c.ID)
	}
	return closed, err
}

// Answer reads a plain "yes" or "no" of a person as a decision, and only while exactly one call of the session waits for one. ok is
// false when the text is something else, which is then a message as any other.
func (a *Approvals) Answer(ctx context.Context, session, text, by string) (decided Approval, ok bool, err error) {
	choice := plainAnswer(text)
	if choice == "" {
		return Approval{}, false, nil
	}
	waiting := a.Waiting(session)
	if len(waiting) != 1 {
		return Approval{}, false, nil
	}
	decided, err = a.Decide(ctx, waiting[0], choice, by)
	return decided, true, err
}

func plainAnswer(text string) tool.Choice {
	switch strings.ToLower(strings.Trim(text, " \t\n.!")) {
	case "yes", "y", "ok", "okay", "approve", "approved", "allow", "go ahead", "do it":
		return tool.ChoiceOnce
	case "no", "n", "deny", "denied", "don't", "do not", "refuse":
		return tool.ChoiceDeny
	}
	return ""
}

// Waiting gives the ids of the calls of a session that wait, sorted.
func (a *Approvals) Waiting(session string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for id, w := range a.waiting {
		if w.session == session {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (a *Approvals) waiter(id string) (waiter, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok := a.waiting[id]
	return w, ok
}

func (a *Approvals) expect(r tool.Request) (string, waiter) {
	id, w := sessiondb.NewApprovalID(), waiter{session: r.Session, rules: r.Rules, decided: make(chan sessiondb.Approval, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[id] = w
	return id, w
}

func (a *Approvals) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
}

func (a *Approvals) wake(out Approval) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w, ok := a.waiting[out.ID]; ok {
		delete(a.waiting, out.ID)
		w.decided <- out
	}
}

// ask records a question, shows it, waits for its end, and shows that: whoever was asked elsewhere need not answer any more. beat is
// told that the turn lives.
func (a *Approvals) ask(ctx context.Context, r tool.Request, show func(Approval), beat func()) tool.Decision {
	if granted, by, err := a.store.Granted(ctx, r.Session, r.Rules); err == nil && granted {
		return tool.Decision{ID: by, Choice: tool.ChoiceOnce, By: "grant " + by}
	}
	id, w := a.expect(r) // before the record can be seen: it may be decided at once
	record, err := a.store.AskApproval(ctx, sessiondb.Approval{
		ID: id, Session: r.Session, Turn: r.Turn, CallID: r.CallID, Tool: r.Tool, Effect: r.Effect, Reason: r.Reason, Rules: r.Rules,
	}, a.timeout)
	if err != nil {
		a.forget(id)
		return tool.Decision{Choice: tool.ChoiceDeny, By: "gatewayd", Words: "nobody could be asked, because the question could not be stored: " + err.Error()}
	}
	a.log.Warn("approval needed", "session", r.Session, "turn", r.Turn, "tool", r.Tool, "approval", record.ID, "effect", r.Effect, "reason", r.Reason,
		"approve", "gatewayd approvals approve "+record.ID, "deny", "gatewayd approvals deny "+record.ID, "within", a.timeout.String())
	show(record)
	record = a.await(ctx, record, w, beat)
	show(record)
	return decisionOf(record)
}

// await returns with the settled record: decided, or denied at the timeout and when the turn ends.
func (a *Approvals) await(ctx context.Context, record Approval, w waiter, beat func()) Approval {
	limit := time.NewTimer(a.timeout)
	defer limit.Stop()
	pulse := time.NewTicker(approvalBeat)
	defer pulse.Stop()
	for {
		select {
		case out := <-w.decided:
			return out
		case <-pulse.C:
			beat()
		case <-limit.C:
			return a.lapse(ctx, record, w, "timeout")
		case <-ctx.Done():
			return a.lapse(ctx, record, w, "turn_ended")
		}
	}
}

// lapse denies an approval that nobody gave. A person who was quicker by a moment is heard; a record that cannot be written denies
// all the same.
func (a *Approvals) lapse(ctx context.Context, record Approval, w waiter, why string) Approval {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	verdict := sessiondb.Verdict{State: sessiondb.ApprovalDenied, Decision: why, By: "gatewayd"}
	if mutation.On("silence-approves") {
		verdict.State = sessiondb.ApprovalApproved
	}
	out, err := a.settle(bound, record.ID, verdict)
	if err != nil && out.ID == "" {
		a.forget(record.ID)
		a.log.Warn("lapse of an approval not stored", "session", record.Session, "approval", record.ID, "error", err)
		record.State, record.Decision = sessiondb.ApprovalDenied, why
		return record
	}
	return out
}

// decisionOf turns a settled record into what the gate is told.
func decisionOf(a Approval) tool.Decision {
	d := tool.Decision{ID: a.ID, Choice: tool.ChoiceDeny, By: a.DecidedBy}
	if a.State == sessiondb.ApprovalApproved {
		d.Choice = tool.ChoiceOnce
		return d
	}
	d.Words = refusalWords(a)
	return d
}

// refusalWords tell the model, and whoever reads the row, why the call was not run.
func refusalWords(a Approval) string {
	switch a.Decision {
	case "timeout":
		return "nobody approved it in time (approval " + a.ID + ")"
	case "restart":
		return "gatewayd ended before anybody approved it (approval " + a.ID + "); it may be asked for again"
	case "turn_ended":
		return "the turn was ended before anybody approved it (approval " + a.ID + ")"
	}
	return "the user denied it (approval " + a.ID + "). Do not try to reach the same by another way; ask what they want instead"
}

func errDecided(a Approval) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: "approval " + a.ID, What: fmt.Sprintf("was decided already: %s (%s) by %s", a.State, a.Decision, a.DecidedBy),
		Fate: "that decision stands", Field: "id",
	}
}

// Decider makes a name under which somebody decides fit for a record: the door they came by, and what they call themselves.
func Decider(by string) string {
	by = strings.Join(strings.Fields(tool.Plain(by)), " ")
	if len(by) > deciderMax {
		by = strings.ToValidUTF8(by[:deciderMax], "")
	}
	if by == "" {
		return "somebody"
	}
	return by
}

// turnApprover asks for the calls of one turn.
type turnApprover struct {
	t *turn
}

// Approve records the question, shows it to whoever watches the turn, and waits.
func (p turnApprover) Approve(ctx context.Context, r tool.Request) tool.Decision {
	return p.t.g.opts.Approvals.ask(ctx, r, func(a Approval) {
		kind := EventApproval
		if !a.Pending() {
			kind = EventDecided
		}
		p.t.sink.put(Event{Kind: kind, Tool: a.Tool, CallID: a.CallID, Text: a.Effect, Approval: &a})
	}, p.t.progress.touch)
}

// refused gives what became of the calls of a turn that were asked about and not allowed, by the ids of the calls. They were never
// run, also where the process ended before it could say so.
func (a *Approvals) refused(ctx context.Context, session, turn string) map[string]string {
	if a == nil || turn == "" {
		return nil
	}
	list, err := a.store.Approvals(ctx, sessiondb.ApprovalFilter{Session: session, Turn: turn, State: sessiondb.ApprovalDenied})
	if err != nil {
		a.log.Warn("approvals of a turn cannot be read, its open calls count as UNKNOWN", "session", session, "turn", turn, "error", err)
		return nil
	}
	words := map[string]string{}
	for _, record := range list {
		words[record.CallID] = refusalWords(record)
	}
	return words
}

// refuse tells apart, among the calls that a repair answers, those that nobody had allowed: they have no effect.
func (r *repair) refuse(words map[string]string) {
	for i := range r.insert {
		row := &r.insert[i]
		why, refused := words[row.ToolCallID]
		switch {
		case row.Role == roleTool && refused && row.Effect != intentNone:
			row.Content, row.Effect = "[not run: "+why+"]", intentNone
			r.unknown, r.notRun = r.unknown-1, r.notRun+1
		case row.Kind == kindClosing:
			row.Content = r.closing()
		}
	}
}
