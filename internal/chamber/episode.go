package chamber

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Part is one process of an episode.
type Part struct {
	Role    string // of roles(), or a foreign script
	Name    string // where an episode has two of one role; also the tag of its tokens
	With    Params // what is special
	Lasting bool   // goes on into the next episodes that have it
	Error   string // the class of the one error it must end with; "" means none
	Usual   int    // descriptors of the store it may have; 0: the most of its first half second
	Slack   int    // descriptors above its usual number; 0 is not looked at
	Works   string // the event by which it shows that it works; "" means acked
}

func (p Part) name() string {
	if p.Name != "" {
		return p.Name
	}
	return p.Role
}

// Fault is one thing that is done, and proved. It returns an error when it could not be done or did not happen.
type Fault struct {
	Name string
	Do   func(ctx context.Context, s *Stage) error
}

// Episode is one row of the table.
type Episode struct {
	Name    string
	Modes   []string // in which it makes sense; nil: both
	Cast    []Part
	Verbs   [][]string // of the program itself, run by turns beside the roles; one that begins with sqlite3 is that program
	Faults  []Fault
	After   []Fault // when the cast has ended, before the audit: what a person does
	Parts   bool    // rows are salvaged into conversations that went on meanwhile, and stand behind what came since
	Deletes bool    // its faults delete files under open handles: that they are held for a while is no finding
}

// In reports whether the episode runs in this mode.
func (e Episode) In(mode string) bool { return len(e.Modes) == 0 || slices.Contains(e.Modes, mode) }

// Stage is an episode that runs, as its faults see it.
type Stage struct {
	*Chamber
	Episode Episode
	Seed    uint64
	Rand    *rand.Rand
	cast    map[string]*actorProcess
	gone    []*actorProcess // ended in the course of the episode, to be judged with the others
	verbs   verbLoop
	Skipped []string // parts that this machine has not got
}

// Result is what became of an episode.
type Result struct {
	Label    string        `json:"label"`
	Seed     uint64        `json:"seed"`
	Took     time.Duration `json:"took_ns"`
	Tallies  string        `json:"tallies"`
	Skipped  []string      `json:"skipped,omitempty"`
	Failures []string      `json:"failures,omitempty"`
}

// Failed says so.
func (r Result) Failed() bool { return len(r.Failures) > 0 }

// Run runs one episode: the cast is started, works, suffers the faults, goes on working, is stopped; then a fresh
// process looks at the files. Whatever happens, no process of the episode is left when it returns.
func (c *Chamber) Run(ctx context.Context, e Episode) Result {
	began := time.Now()
	label := c.Mode + "/" + e.Name
	s := &Stage{Chamber: c, Episode: e, Seed: c.seedOf(label), cast: map[string]*actorProcess{}}
	s.Rand = rand.New(rand.NewPCG(s.Seed, 0))
	r := Result{Label: label, Seed: s.Seed}
	c.monitor.begin(e.Deletes)
	err := s.play(ctx)
	if err != nil {
		r.Failures = append(r.Failures, err.Error())
	}
	r.Failures = append(r.Failures, s.strike(ctx, err != nil)...)
	for i := 0; i < len(e.After) && len(r.Failures) == 0; i++ {
		if err := e.After[i].Do(ctx, s); err != nil {
			r.Failures = append(r.Failures, fmt.Sprintf("afterwards, %s: %v", e.After[i].Name, err))
		}
	}
	findings, scans := c.monitor.report()
	r.Failures = append(r.Failures, findings...)
	r.Failures = append(r.Failures, s.settle(ctx)...)
	r.Tallies, r.Skipped, r.Took = s.tallies(), s.Skipped, time.Since(began)
	c.Totals.Episodes++
	c.Totals.Scans += scans
	if scans == 0 {
		r.Failures = append(r.Failures, "the monitor never looked")
	}
	if r.Failed() && c.Replay != "" {
		r.Failures = append(r.Failures, "run it again: "+fmt.Sprintf(c.Replay, e.Name, c.Seed))
	}
	return r
}

// play is the part of an episode in which the roles live.
func (s *Stage) play(ctx context.Context) error {
	for _, part := range s.Episode.Cast {
		if err := s.enter(part); err != nil {
			return err
		}
	}
	for _, p := range s.cast {
		if err := p.await(ctx, "ready", 1); err != nil {
			return err
		}
	}
	s.startVerbs(ctx)
	if err := s.working(ctx); err != nil {
		return fmt.Errorf("before any fault: %w", err)
	}
	for _, f := range s.Episode.Faults {
		if err := f.Do(ctx, s); err != nil {
			return fmt.Errorf("fault %s: %w", f.Name, err)
		}
		s.Totals.Faults++
	}
	return s.last(ctx)
}

// enter starts a part, or finds it where it lasts. What this machine has not got is skipped aloud.
func (s *Stage) enter(part Part) error {
	if p := s.lasting[part.name()]; part.Lasting && p != nil {
		s.cast[part.name()] = p
		return nil
	}
	p, err := s.start(part, s.Seed+uint64(len(s.cast)))
	if err != nil && foreigners[part.Role] != nil {
		s.Skipped = append(s.Skipped, part.Role+" is NOT played: "+err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	s.cast[part.name()] = p
	if part.Lasting {
		s.lasting[part.name()] = p
	}
	return nil
}

// working waits until every part has shown that it works, from now on.
func (s *Stage) working(ctx context.Context) error {
	for _, p := range s.cast {
		event := p.part.Works
		if event == "" {
			event = "acked"
		}
		if event == "ready" {
			continue
		}
		if err := p.awaitMore(ctx, event, 2); err != nil {
			return err
		}
	}
	return nil
}

// last lets those who are left work for the length of the episode, and proves that they still do.
func (s *Stage) last(ctx context.Context) error {
	timer := time.NewTimer(s.Length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.working(ctx); err != nil {
		return fmt.Errorf("after the faults: %w", err)
	}
	return nil
}

// strike ends everybody and judges how they behaved. After a failure nobody is asked politely.
func (s *Stage) strike(ctx context.Context, failed bool) (wrong []string) {
	wrong = append(wrong, s.verbs.stop()...)
	if s.verbs.missing {
		s.Skipped = append(s.Skipped, shell+" is not installed: it does NOT read beside the roles")
	}
	for name, p := range s.cast {
		switch {
		case failed:
			p.kill()
			delete(s.lasting, name)
			for _, e := range p.errors {
				wrong = append(wrong, fmt.Sprintf("%s: [%s] %s", name, e.Class, e.Text))
			}
		case s.lasting[name] == p:
			continue
		default:
			p.stop(ctx)
		}
		s.gone = append(s.gone, p)
	}
	for _, p := range s.gone {
		wrong = append(wrong, p.verdict()...)
		s.Totals.Waits += p.last("ended").Count
	}
	for name, p := range s.cast {
		if grown := s.monitor.grown(p.proc.PID(), p.part.Usual); p.part.Slack > 0 && grown > p.part.Slack {
			wrong = append(wrong, fmt.Sprintf("%s holds %d descriptors more than it usually does", name, grown))
		}
		if mode := p.last("ready").Mode; s.Mode != "" && mode != "" && mode != s.Mode {
			wrong = append(wrong, fmt.Sprintf("%s works in journal mode %s instead of %s", name, mode, s.Mode))
		}
	}
	return wrong
}

// settle looks at the files when nobody writes any more.
func (s *Stage) settle(ctx context.Context) (wrong []string) {
	a, err := s.audit(ctx, s.Seed, s.Episode.Parts)
	if err != nil {
		return []string{err.Error()}
	}
	wrong = append(wrong, a.Findings...)
	if s.Mode == "" {
		s.Mode = a.Mode
	}
	if a.Mode != s.Mode {
		wrong = append(wrong, fmt.Sprintf("the store is in journal mode %s instead of %s", a.Mode, s.Mode))
	}
	if err := shrunk(s.sessions, a.Sessions); err != nil {
		wrong = append(wrong, err.Error())
	}
	if a.Acked == 0 {
		wrong = append(wrong, "no row was acknowledged: nothing was tested")
	}
	s.sessions = a.Sessions
	s.Totals.Acked, s.Totals.Cards = a.Acked, a.Cards
	held, err := s.monitor.heldNow()
	if err != nil || len(held) > 0 && !lastingHold(s, held[0].PID) {
		wrong = append(wrong, fmt.Sprintf("after the end a deleted file is held: %+v %v", held, err))
	}
	return wrong
}

func lastingHold(s *Stage, pid int) bool {
	for _, p := range s.lasting {
		if p.proc.PID() == pid && s.Episode.Deletes {
			return true
		}
	}
	return false
}

func (s *Stage) tallies() string {
	var words []string
	for _, p := range append(s.gone, s.stillThere()...) {
		t := p.tallies()
		for _, event := range []string{"acked", "cycled", "read", "searched", "rebuilt", "strayed", "halted", "healed", "full", "copied", "folded", "compressed"} {
			if t[event] > 0 {
				words = append(words, fmt.Sprintf("%s %s %d", p.name, event, t[event]))
			}
		}
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func (s *Stage) stillThere() (out []*actorProcess) {
	for name, p := range s.cast {
		if s.lasting[name] == p {
			out = append(out, p)
		}
	}
	return out
}

// player gives a member of the cast.
func (s *Stage) player(name string) (*actorProcess, error) {
	if p := s.cast[name]; p != nil {
		return p, nil
	}
	return nil, errors.New("nobody in the cast is called " + name)
}
