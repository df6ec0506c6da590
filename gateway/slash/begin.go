package slash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatewayd/gateway"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

// stopsWithin is how long a turn that was told to stop may take to write its last rows; above what a tool may take.
const stopsWithin = 25 * time.Second

// begin is /new. Beside a running turn it asks first, because it ends it.
func (r *Runner) begin(ctx context.Context, c Context, line Line) (Reply, error) {
	name, sure := confirmed(line.Args)
	old, err := r.Store.Session(ctx, c.Session)
	if errors.Is(err, sessiondb.ErrSessionMissing) {
		return r.beginFirst(ctx, c, name)
	}
	if err != nil {
		return Reply{}, err
	}
	turn, busy := r.running(old.ID)
	if busy && !sure {
		return Reply{
			Text: fmt.Sprintf("A turn runs here since %s. `/%s` ends it and begins anew; nothing was changed yet.", ago(turn.Since), strings.Join(strings.Fields("new "+name+" now"), " ")),
			Data: map[string]any{"confirm": true, "turn": turn},
		}, nil
	}
	waiting := r.Gateway.Forget(old.ID, gateway.Stop)
	ended := r.endBackground(ctx, old.ID)
	made, err := r.renew(ctx, c, old, name)
	if errors.Is(err, sessiondb.ErrSessionEnded) { // another /new was quicker, or the conversation had ended
		made, err = r.successor(ctx, c, old)
	}
	if err != nil {
		return Reply{}, err
	}
	r.resetBreaker("")
	text := "A new conversation begins: " + made.Session.ID + "."
	if n := max(waiting, made.Dropped); n > 0 {
		text += fmt.Sprintf(" Messages that waited in the old one and are dropped: %d.", n)
	}
	if ended > 0 {
		text += fmt.Sprintf(" Ended in the background of the old one: %s.", count(ended, "command"))
	}
	text, err = r.name(ctx, made.Session.ID, name, text)
	return Reply{Text: text, Session: made.Session.ID, Data: map[string]any{
		"session": made.Session.ID, "ended": old.ID, "dropped": max(waiting, made.Dropped), "commands": ended,
	}}, err
}

// confirmed takes the words by which a person says that they mean it out of the arguments.
func confirmed(args string) (rest string, sure bool) {
	var words []string
	for _, word := range strings.Fields(args) {
		switch word {
		case "now", "--yes", "-y":
			sure = true
		default:
			words = append(words, word)
		}
	}
	return strings.Join(words, " "), sure
}

// beginFirst is /new where nothing was said yet.
func (r *Runner) beginFirst(ctx context.Context, c Context, name string) (Reply, error) {
	made, err := r.Store.CreateSession(ctx, sessiondb.NewSession{ID: c.Session, Key: c.Key, Source: c.Source, Prompt: r.SystemPrompt, Model: r.Model().Name})
	if err != nil {
		return Reply{}, err
	}
	text, err := r.name(ctx, made.ID, name, "A new conversation begins: "+made.ID+".")
	return Reply{Text: text, Session: made.ID, Data: map[string]any{"session": made.ID}}, err
}

// name gives a session a title; one that is taken costs the title and not the session.
func (r *Runner) name(ctx context.Context, session, title, text string) (string, error) {
	if title == "" {
		return text, nil
	}
	err := r.Store.SetTitle(ctx, session, title)
	if problem.Is(err, problem.Conflict) {
		return text + " It has no title: " + err.Error() + ".", nil
	}
	return text, err
}

// renew waits for the last rows of the turn that was ended and begins anew in one step.
func (r *Runner) renew(ctx context.Context, c Context, old sessiondb.Session, title string) (made sessiondb.Anew, err error) {
	if old.EndedAt != nil {
		return made, sessiondb.ErrSessionEnded
	}
	prompt, err := r.promptAfter(ctx, old)
	if err != nil {
		return made, err
	}
	err = r.holding(ctx, old.ID, "new conversation", stopsWithin, func(l sessiondb.Lease) error {
		made, err = r.Store.BeginAnew(ctx, l, sessiondb.NewSession{Key: c.Key, Source: old.Source, Prompt: prompt, Model: r.Model().Name, Cwd: old.Cwd, Hidden: old.Hidden})
		return err
	})
	return made, err
}

// successor finds where a conversation that ended goes on, or begins one.
func (r *Runner) successor(ctx context.Context, c Context, old sessiondb.Session) (sessiondb.Anew, error) {
	key := c.Key
	if key == "" {
		key = old.Key
	}
	made, err := r.Store.CreateSession(ctx, sessiondb.NewSession{Key: key, Source: old.Source, Prompt: r.SystemPrompt, Model: r.Model().Name, Cwd: old.Cwd, Hidden: old.Hidden})
	return sessiondb.Anew{Session: made}, err
}

// promptAfter is the system prompt of what follows a conversation: the configured one, with what a client laid upon it.
func (r *Runner) promptAfter(ctx context.Context, old sessiondb.Session) (string, error) {
	if old.PromptHash == "" {
		return r.SystemPrompt, nil
	}
	prompt, err := r.Store.Prompt(ctx, old.PromptHash)
	if strings.HasPrefix(prompt, r.SystemPrompt) {
		return prompt, err
	}
	return r.SystemPrompt, err
}

func ago(since time.Time) string { return time.Since(since).Round(time.Second).String() }
