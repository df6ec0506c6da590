package slash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/route"
	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

const (
	listed  = 10 // sessions that a list shows
	scanned = 50 // hits that a search looks through for so many sessions
)

// title is /title [text].
func (r *Runner) title(ctx context.Context, c Context, line Line) (Reply, error) {
	session, err := r.Store.Session(ctx, c.Session)
	if errors.Is(err, sessiondb.ErrSessionMissing) {
		return Reply{}, errNothing(line.Command, c.Session)
	}
	if err != nil {
		return Reply{}, err
	}
	if line.Args == "" {
		text := "This conversation has no title."
		if session.Title != "" {
			text = "This conversation is called " + brief(session.Title) + "."
		}
		return Reply{Text: text, Data: map[string]any{"title": session.Title}}, nil
	}
	title := strings.Join(strings.Fields(line.Args), " ")
	if err := r.Store.SetTitle(ctx, c.Session, title); err != nil {
		return Reply{}, err
	}
	return Reply{Text: "This conversation is now called " + brief(title) + ".", Data: map[string]any{"title": title}}, nil
}

// sessions is /sessions [search].
func (r *Runner) sessions(ctx context.Context, c Context, line Line) (Reply, error) {
	found, err := r.look(ctx, c, line.Args)
	if err != nil {
		return Reply{}, err
	}
	text := "There are no other conversations."
	if line.Args != "" {
		text = "No conversation is called so, and nothing was said with these words."
	}
	if len(found) > 0 {
		text = lines(found, c.Session)
	}
	return Reply{Text: text, Data: map[string]any{"sessions": append([]sessiondb.Session{}, found...)}}, nil
}

// look lists the sessions that are this surface's own: the last active, or those that a text names or was said in.
func (r *Runner) look(ctx context.Context, c Context, text string) ([]sessiondb.Session, error) {
	own, err := r.ownership(ctx, c)
	if err != nil {
		return nil, err
	}
	if text == "" {
		all, err := r.Store.Sessions(ctx, sessiondb.ListFilter{NonEmpty: true})
		return first(own.of(all), listed), err
	}
	found, err := r.Store.Find(ctx, text)
	if err != nil {
		return nil, err
	}
	hits, err := r.Store.Search(ctx, sessiondb.Query{Text: text, Limit: scanned})
	if err != nil {
		return nil, err
	}
	for _, hit := range hits {
		if slices.ContainsFunc(found, func(s sessiondb.Session) bool { return s.ID == hit.SessionID }) {
			continue
		}
		session, err := r.Store.Session(ctx, hit.SessionID)
		if err == nil {
			found = append(found, session)
		} else if !errors.Is(err, sessiondb.ErrSessionMissing) {
			return nil, err
		}
	}
	return first(own.of(found), listed), nil
}

// resume is /resume [id or title]. The key by which the surface came here leads to the other session from now on.
func (r *Runner) resume(ctx context.Context, c Context, line Line) (Reply, error) {
	if line.Args == "" {
		return r.sessions(ctx, c, line)
	}
	own, err := r.ownership(ctx, c)
	if err != nil {
		return Reply{}, err
	}
	found, err := r.Store.Find(ctx, line.Args)
	if err != nil {
		return Reply{}, err
	}
	found = own.of(found)
	switch {
	case len(found) == 0:
		return Reply{}, &problem.Error{
			Kind: problem.NotFound, Thing: "/resume", What: fmt.Sprintf("finds no conversation that is called %.100q", line.Args), Fate: "nothing was changed", Remedy: "look at /sessions",
		}
	case len(found) > 1:
		return Reply{}, &problem.Error{
			Kind: problem.Conflict, Thing: "/resume", What: fmt.Sprintf("finds %d conversations:\n%s", len(found), lines(first(found, listed), c.Session)), Fate: "nothing was changed", Remedy: "name one by its id",
		}
	}
	session, err := r.Store.Bind(ctx, own.key, found[0].ID)
	if err != nil {
		return Reply{}, err
	}
	return Reply{
		Text: fmt.Sprintf("This is now %s: %s, %s.", session.ID, label(session), count(int(session.MessageCount), "message")), Session: session.ID,
		Data: map[string]any{"session": session},
	}, nil
}

// ownership tells which sessions may be seen from a conversation. Whoever holds the API key sees all; a chat of a platform sees
// those of its own person and place.
type ownership struct {
	key    string // by which the surface comes to its session; may be empty
	origin *route.Origin
}

func (r *Runner) ownership(ctx context.Context, c Context) (ownership, error) {
	own := ownership{key: c.Key}
	if own.key == "" {
		session, err := r.Store.Session(ctx, c.Session)
		if err != nil && !errors.Is(err, sessiondb.ErrSessionMissing) {
			return own, err
		}
		own.key = session.Key
	}
	if origin, err := route.Parse(own.key); err == nil && origin.Platform != gateway.SourceAPI {
		own.origin = &origin
	}
	return own, nil
}

func (o ownership) of(list []sessiondb.Session) []sessiondb.Session {
	if o.origin == nil {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(s sessiondb.Session) bool {
		other, err := route.Parse(s.Key)
		return err != nil || !o.origin.SamePerson(other)
	})
}

func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// lines shows sessions, one a line.
func lines(list []sessiondb.Session, current string) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		mark := " "
		if s.ID == current {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s %s  %s  %s  %s", mark, s.ID, s.LastActive.Local().Format(time.DateTime), count(int(s.MessageCount), "message"), label(s))
	}
	return b.String()
}

func label(s sessiondb.Session) string {
	switch {
	case s.Title != "":
		return brief(s.Title)
	case s.Preview != "":
		return brief(s.Preview)
	}
	return "without a title"
}

// brief is a text on one line, cut to what a line holds.
func brief(text string) string {
	const most = 100
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
