package slash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// What /status may take: it answers while everything else hangs. The window is looked at last, because the model's server may be
// asked for it.
const (
	looksWithin = 1500 * time.Millisecond
	asksWithin  = time.Second
)

// Status is what /status says, for programs. What could not be looked at in time is named in Unknown and left out.
type Status struct {
	Session  string `json:"session"`
	Exists   bool   `json:"exists"` // something was stored of it
	Title    string `json:"title,omitempty"`
	Key      string `json:"key,omitempty"`
	Messages int64  `json:"messages"`
	Ended    string `json:"ended,omitempty"` // why

	Model    string `json:"model"` // what answers the next message, as it is configured or chosen
	Provider string `json:"provider"`
	Chosen   string `json:"chosen,omitempty"` // session: by /model; once: for the next turn; empty: as configured

	Window gateway.Window `json:"context"`

	Running *gateway.RunningTurn `json:"running"` // null: nothing runs
	Queued  int                  `json:"queued"`
	Steers  []string             `json:"pending_steer,omitempty"`
	Asked   []gateway.Approval   `json:"pending_approvals,omitempty"`
	Tokens  sessiondb.Counts     `json:"tokens"`
	Unknown []string             `json:"unknown,omitempty"`
}

// status is /status. It needs no model, no lease and no turn's consent.
func (r *Runner) status(ctx context.Context, c Context, _ Line) (Reply, error) {
	s := r.Look(ctx, c)
	return Reply{Text: s.String(), Data: s}, nil
}

// Look gives a picture of a conversation within a few seconds, whatever hangs.
func (r *Runner) Look(ctx context.Context, c Context) Status {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, looksWithin)
	defer cancel()
	s := Status{Session: c.Session}
	if turn, busy := r.running(c.Session); busy {
		s.Running = &turn
	}
	look := func(what string, at func() error) {
		if err := at(); err != nil && !errors.Is(err, sessiondb.ErrSessionMissing) {
			s.Unknown = append(s.Unknown, what+": "+err.Error())
		}
	}
	look("session", func() error { return s.session(ctx, r) })
	look("model", func() error { return s.model(ctx, r) })
	look("tokens", func() error { return s.tokens(ctx, r) })
	waiting := r.waiting(ctx, c.Session)
	s.Queued, s.Steers = waiting.queued, waiting.steers
	look("queue", func() error { return waiting.err })
	look("approvals", func() (err error) {
		s.Asked, err = r.asked(ctx, c.Session)
		return err
	})
	ctx, stop := context.WithTimeout(whole, asksWithin)
	defer stop()
	look("context", func() error { return s.window(ctx, r) })
	return s
}

func (s *Status) session(ctx context.Context, r *Runner) error {
	session, err := r.Store.Session(ctx, s.Session)
	if err != nil {
		return err
	}
	s.Exists, s.Title, s.Key, s.Messages, s.Ended = true, session.Title, session.Key, session.MessageCount, session.EndReason
	return nil
}

// model says who would answer now. A turn that runs has its own, which it began with.
func (s *Status) model(ctx context.Context, r *Runner) error {
	about := r.Model()
	s.Model, s.Provider = about.Name, about.Provider
	settings, err := r.Store.Settings(ctx, s.Session)
	if err != nil {
		return err
	}
	name := settings.Model
	if s.Chosen = ""; name != "" {
		s.Chosen = "session"
	}
	if settings.Once != "" {
		name, s.Chosen = settings.Once, "once"
	}
	if name == "" {
		return nil
	}
	s.Model = name
	if r.Models == nil {
		return nil
	}
	model, err := r.Models(name)
	if err != nil {
		return err
	}
	about = model.Describe()
	s.Model, s.Provider = about.Name, about.Provider
	return nil
}

func (s *Status) window(ctx context.Context, r *Runner) (err error) {
	s.Window, err = r.window(ctx, s.Session)
	return err
}

func (s *Status) tokens(ctx context.Context, r *Runner) error {
	usage, err := r.Store.Usage(ctx, s.Session)
	s.Tokens = usage.Total
	return err
}

// waits is what was accepted in a session and not said yet.
type waits struct {
	queued int
	steers []string
	err    error
}

func (r *Runner) waiting(ctx context.Context, session string) (w waits) {
	list, err := r.Store.Inbox(ctx, session)
	w.err = err
	for _, one := range list {
		if one.Mode == sessiondb.InboxSteer {
			w.steers = append(w.steers, one.Content)
			continue
		}
		w.queued++
	}
	return w
}

// String is the status as a person reads it.
func (s Status) String() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	title := ""
	if s.Title != "" {
		title = "  " + brief(s.Title)
	}
	row("session", "%s%s", s.Session, title)
	if !s.Exists {
		row("", "nothing was said in it yet")
	}
	if s.Ended != "" {
		row("", "has ended: %s", s.Ended)
	}
	row("model", "%s at %s%s", orUnnamed(s.Model), orUnnamed(s.Provider), map[string]string{"session": " (chosen here)", "once": " (for the next turn)"}[s.Chosen])
	row("context", "%s", contextLine(s.Window))
	row("turn", "%s", turnLine(s.Running))
	row("waiting", "%s", waitingLine(s.Queued, s.Steers))
	for _, a := range s.Asked {
		row("approval", "%s: %s", a.ID, brief(a.Effect))
	}
	row("tokens", "%s", countsLine(s.Tokens))
	row("messages", "%d", s.Messages)
	for _, unknown := range s.Unknown {
		row("unknown", "%s", unknown)
	}
	return strings.TrimRight(b.String(), "\n")
}

func orUnnamed(name string) string {
	if name == "" {
		return "(not named)"
	}
	return name
}

func contextLine(w gateway.Window) string {
	about := "about "
	if w.Measured {
		about = ""
	}
	if w.Tokens == 0 {
		return fmt.Sprintf("%s%d tokens in use; nobody said how many fit", about, w.Used)
	}
	return fmt.Sprintf("%s%d of %d tokens in use, %d %% (%s)", about, w.Used, w.Tokens, w.Used*100/w.Tokens, w.Origin)
}

func turnLine(turn *gateway.RunningTurn) string {
	if turn == nil {
		return "none runs"
	}
	return fmt.Sprintf("%s, since %s, last sign of life %s ago", turn.Phase, ago(turn.Since), ago(turn.Progress))
}

func waitingLine(queued int, steers []string) string {
	text := count(queued, "message")
	if len(steers) > 0 {
		text += fmt.Sprintf(", and %d for the running turn", len(steers))
	}
	return text
}

func countsLine(n sessiondb.Counts) string {
	return fmt.Sprintf("%d in, %d out, %d cached, in %s", n.Prompt, n.Completion, n.Cached, count(int(n.Calls), "call"))
}

// usage is /usage.
func (r *Runner) usage(ctx context.Context, c Context, line Line) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, looksWithin)
	defer cancel()
	usage, err := r.Store.Usage(ctx, c.Session)
	if err != nil {
		return Reply{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s", countsLine(usage.Total))
	for _, m := range usage.Models {
		task := ""
		if m.Task != "" {
			task = " for " + m.Task
		}
		fmt.Fprintf(&b, "\n  %s at %s%s: %s", orUnnamed(m.Model), orUnnamed(m.Provider), task, countsLine(m.Counts))
	}
	if w, err := r.window(ctx, c.Session); err == nil {
		fmt.Fprintf(&b, "\n%s", contextLine(w))
	}
	return Reply{Text: b.String(), Data: usage}, nil
}

// help is /help [command].
func help(_ *Runner, _ context.Context, _ Context, line Line) (Reply, error) {
	shown := commands
	if word := strings.TrimPrefix(strings.ToLower(line.Args), "/"); word != "" {
		if shown = named(word); len(shown) == 0 {
			return Reply{}, errName(word, "is no command. "+all())
		}
	}
	var b strings.Builder
	for i, c := range shown {
		if i > 0 {
			b.WriteByte('\n')
		}
		about := c.About
		for _, alias := range c.Aliases {
			about += "; also /" + alias
		}
		fmt.Fprintf(&b, "%-44s %s", "/"+strings.TrimSpace(c.Name+" "+c.Args), about)
	}
	return Reply{Text: b.String(), Data: map[string]any{"commands": shown}}, nil
}
