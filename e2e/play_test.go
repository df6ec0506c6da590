package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// Bounds of a play, whatever is done to it.
const (
	turnBound  = 90 * time.Second // from the message to the end of its turn
	stopBound  = 15 * time.Second // from an interrupt to the end of the turn
	probeBound = 60 * time.Second
	reapBound  = 15 * time.Second // until nothing that the turn started lives
	exitBound  = 30 * time.Second
	callBound  = 16 // calls of the model in one turn; none of the plays has more
	lateCalls  = 2  // calls that may still be seen after an interrupt
)

// ending is how the turn with the fault has to end.
type ending string

const (
	answered    ending = "answered"    // with an answer
	explained   ending = "explained"   // with words that say why there is none
	ended       ending = "ended"       // with either
	interrupted ending = "interrupted" // as the one who interrupted it was promised
)

// play is one fault, played in a scene of its own. The first message, which names the play, meets the fault; the second one, on
// the same session, is the probe, and is answered; then the daemon is stopped.
type play struct {
	name  string
	knobs knobs
	fault func(n int, r fakellm.Request) fakellm.Response // the nth call of the first turn, from 0
	want  ending
	most  int // calls of the first turn; 0 where an interrupt ends it
	least int

	during  func(p *playing) // while the first turn runs; it may end it
	between func(p *playing) // after it, before the probe
	probed  func(p *playing) // instead of the usual demands on the probe
	after   func(p *playing) // when the daemon has ended
}

const playedSession = "played"

// playing is a play under way.
type playing struct {
	*scene
	play
	nonce   string
	turn    heard
	probe   heard
	counts  string              // what the daemon itself counted of the model's server, and how its breaker stood, after the probe
	rows    []sessiondb.Message // as the daemon left them
	audit   sessiondb.Audit
	started time.Time // of the turn
	stopped time.Time // when the interrupt was sent; zero without one

	mu     sync.Mutex
	calls  []fakellm.Request // of the first turn
	probes []fakellm.Request
	late   int // calls after the interrupt
	over   chan struct{}
}

// perform plays a play to its end and fails the test with everything that was found.
func perform(t *testing.T, p play) {
	playing := &playing{play: p, nonce: strings.ToLower(rand.Text()[:10]), over: make(chan struct{})}
	playing.scene = newScene(t, p.knobs, playing.answer)
	playing.firstTurn()
	if p.between != nil {
		p.between(playing)
	}
	playing.secondTurn()
	playing.counts = playing.serverCounts()
	exit := playing.leave()
	a := playing.account()
	a.exit, a.code, a.signal = exit.took, exit.code, exit.signal
	a.left = nobodyOf(t, playing.home, reapBound)
	if found := judge(p, a); len(found) > 0 {
		t.Errorf("%s\n%s", strings.Join(found, "\n"), playing.report())
	}
	if p.probed != nil {
		p.probed(playing)
	}
	if p.after != nil {
		p.after(playing)
	}
}

// answer is the model: the probe is answered, everything else meets the fault.
func (p *playing) answer(r fakellm.Request) fakellm.Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(lastUser(r), p.nonce) {
		p.probes = append(p.probes, r)
		return fakellm.Text{Text: p.probeAnswer()}
	}
	p.calls = append(p.calls, r)
	if !p.stopped.IsZero() {
		p.late++
	}
	return p.fault(len(p.calls)-1, r)
}

func (p *playing) probeAnswer() string { return "Here, " + p.nonce + "." }

// lastUser is the last thing that a person said in a request.
func lastUser(r fakellm.Request) string {
	for _, m := range slices.Backward(messagesOf(r)) {
		if m.Role == "user" {
			return m.Content
		}
	}
	return ""
}

func (p *playing) firstTurn() {
	ctx, cancel := context.WithTimeout(p.t.Context(), turnBound)
	defer cancel()
	p.started = time.Now()
	var beside sync.WaitGroup
	if p.during != nil {
		beside.Go(func() { p.during(p) })
	}
	p.turn = p.hear(ctx, playedSession, p.message())
	close(p.over)
	beside.Wait()
}

func (p *playing) message() string { return "[[chaos:" + p.name + "]] please" }

func (p *playing) secondTurn() {
	ctx, cancel := context.WithTimeout(p.t.Context(), probeBound)
	defer cancel()
	p.probe = p.hear(ctx, playedSession, "[[probe:"+p.nonce+"]] are you there?")
}

// interrupt ends the turn as a person does, and notes when.
func (p *playing) interrupt() {
	p.mu.Lock()
	p.stopped = time.Now()
	p.mu.Unlock()
	if err := p.try("POST", "/api/sessions/"+playedSession+"/stop", struct{}{}, nil); err != nil {
		p.t.Errorf("stop: %v", err)
	}
}

// asked waits until the first turn has made its nth call.
func (p *playing) asked(n int) {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if _, err := p.model.Wait(ctx, n); err != nil {
		p.t.Error(err)
	}
}

// leave stops the daemon as a supervisor does.
func (p *playing) leave() (e struct {
	took         time.Duration
	code, signal int
},
) {
	began := time.Now()
	if err := p.child.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	late := time.AfterFunc(exitBound, func() { _ = p.child.Signal(syscall.SIGKILL) })
	defer late.Stop()
	e.code, e.signal, _ = p.child.Wait()
	e.took = time.Since(began)
	return e
}

// account reads what the daemon left and puts it beside what was seen.
func (p *playing) account() account {
	p.rows, p.audit = readStore(p.t, p.home, playedSession)
	p.mu.Lock()
	defer p.mu.Unlock()
	a := account{
		message: p.message(), nonce: p.nonce, turn: p.turn, probe: p.probe, calls: len(p.calls), late: p.late, rows: p.rows,
		probes: p.probes, skipProbe: p.probed != nil,
	}
	if !p.stopped.IsZero() {
		a.interrupt = p.started.Add(p.turn.took).Sub(p.stopped)
	}
	for _, f := range p.audit.Findings {
		if f.Level == sessiondb.Damage {
			a.damage = append(a.damage, f.String())
		}
	}
	return a
}

// serverCounts asks the daemon what it counted.
func (p *playing) serverCounts() string {
	var health struct {
		Checks []struct {
			Name string
			Data json.RawMessage
		}
	}
	if err := p.try("GET", "/health/detailed", nil, &health); err != nil {
		return err.Error()
	}
	for _, check := range health.Checks {
		if check.Name == "model" {
			return string(check.Data)
		}
	}
	return "nothing"
}

// report is what a person needs to tell a breaker from a slow answer: how often the model was called in each turn, how far
// each answer came, and what the daemon logged of it.
func (p *playing) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "turn: %v, %d calls; probe: %v, %d calls\nthe daemon counted %s\n", p.turn.took, len(p.calls), p.probe.took, len(p.probes), p.counts)
	for _, r := range p.model.Requests() {
		fmt.Fprintf(&b, "call %d (%s): %d chunks, %d bytes sent to the model\n", r.N, r.Kind, r.Answered.Chunks(), len(r.Body))
	}
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, "model call failed") || strings.Contains(line, "breaker") || strings.Contains(line, "stall") {
			b.WriteString(line)
		}
	}
	fmt.Fprintf(&b, "turn said %q, because %q\nprobe said %q, because %q", p.turn.text, p.turn.why, p.probe.text, p.probe.why)
	return b.String()
}

// readStore opens what an ended daemon left, reads a conversation and has the whole store audited.
func readStore(t *testing.T, home, session string) ([]sessiondb.Message, sessiondb.Audit) {
	t.Helper()
	store := openLeft(t, home)
	defer store.Close()
	rows, err := store.Transcript(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := sessiondb.Verify(t.Context(), store, sessiondb.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return rows, audit
}

// openLeft opens the store that an ended daemon left.
func openLeft(t *testing.T, home string) *sessiondb.Store {
	t.Helper()
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: filepath.Join(home, "state.db"), Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// callsIn are the ids of the calls of a row.
func callsIn(row sessiondb.Message) (ids []string) {
	var calls []struct{ ID string }
	_ = json.Unmarshal(row.ToolCalls, &calls) // an audit of its own says what is no list
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return ids
}
