package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gatewayd/gateway/slash"
	"gatewayd/internal/problem"
)

// chore is what a method does beside the next lines. A nil result is one that it has sent by itself.
type chore func(ctx context.Context) (any, error)

// method reads a request at once, in the order of the lines, and gives its chore.
type method func(f *front, r request) (chore, error)

// methods are all that a front end may ask for.
var methods = map[string]method{
	"ping":              (*front).ping,
	"session.create":    (*front).create,
	"session.resume":    (*front).resume,
	"session.status":    (*front).status,
	"session.list":      (*front).list,
	"session.messages":  (*front).messages,
	"session.interrupt": (*front).interrupt,
	"prompt.submit":     (*front).submit,
	"steer":             (*front).steer,
	"queue":             (*front).queue,
	"command":           (*front).run,
	"approval.list":     (*front).approvals,
	"approval.respond":  (*front).respond,
}

func methodNames() []string { return slices.Sorted(maps.Keys(methods)) }

// params are what methods take. Fields that a method does not know are left alone.
type params struct {
	Session  string `json:"session"`
	Title    string `json:"title"`
	System   string `json:"system"`
	Key      string `json:"key"`
	Text     string `json:"text"`
	Line     string `json:"line"`
	Mode     string `json:"mode"`
	Search   string `json:"search"`
	Limit    int    `json:"limit"`
	ID       string `json:"id"`
	Decision string `json:"decision"`
}

func (r request) read() (p params, err error) {
	if len(r.Params) == 0 || string(r.Params) == "null" {
		return p, nil
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return p, &problem.Error{Kind: problem.Invalid, Thing: "params", What: "cannot be read", Fate: "nothing was done", Err: err}
	}
	return p, nil
}

func errMissing(field, what string) error {
	return &problem.Error{Kind: problem.Invalid, Thing: "params." + field, What: "is missing; it is " + what, Fate: "nothing was done", Field: field}
}

// meant is the conversation of a request: the one that it names, the last one, or a new one.
func (f *front) meant(named string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if named != "" {
		return named
	}
	if f.session == "" {
		f.session = newSessionID()
	}
	return f.session
}

func (f *front) moveTo(session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.session = session
}

func (f *front) ping(request) (chore, error) {
	return func(context.Context) (any, error) { return map[string]any{"pong": true}, nil }, nil
}

// simple is a method whose work is one call of the daemon.
func (r request) simple(do func(ctx context.Context, p params) (any, error)) (chore, error) {
	p, err := r.read()
	return func(ctx context.Context) (any, error) { return do(ctx, p) }, err
}

func (f *front) create(r request) (chore, error) {
	return r.simple(func(ctx context.Context, p params) (any, error) {
		body := map[string]string{"source": "cli"}
		for name, value := range map[string]string{"id": p.Session, "title": p.Title, "system": p.System, "key": p.Key} {
			if value != "" {
				body[name] = value
			}
		}
		var made struct{ Session json.RawMessage }
		if err := f.call(ctx, http.MethodPost, "/api/sessions", body, &made); err != nil {
			return nil, err
		}
		return f.entered(made.Session)
	})
}

// entered makes a session the one that is meant from now on.
func (f *front) entered(session json.RawMessage) (any, error) {
	var about struct {
		ID       string `json:"id"`
		Title    string `json:"title"`
		Messages int64  `json:"message_count"`
	}
	if err := json.Unmarshal(session, &about); err != nil {
		return nil, err
	}
	f.moveTo(about.ID)
	f.notify("session.info", map[string]any{"session": about.ID, "title": about.Title, "running": false})
	return map[string]any{"session": about.ID, "title": about.Title, "messages": about.Messages}, nil
}

// resume goes on with a session that exists, opened again if it had ended, by its id, its title or the beginning of either.
func (f *front) resume(r request) (chore, error) {
	return r.simple(func(ctx context.Context, p params) (any, error) {
		if p.Session == "" {
			return nil, errMissing("session", "the id or the title of the conversation")
		}
		reply, err := f.command(ctx, newSessionID(), "/resume "+p.Session) // from nowhere, so that no running turn is in its way
		if err != nil {
			return nil, err
		}
		var data struct{ Session json.RawMessage }
		if err := json.Unmarshal(reply.Data, &data); err != nil || data.Session == nil {
			return nil, errors.Join(err, errMissing("session", "the id or the title of one conversation"))
		}
		return f.entered(data.Session)
	})
}

func (f *front) status(r request) (chore, error) {
	return r.simple(func(ctx context.Context, p params) (any, error) {
		session := f.meant(p.Session)
		reply, err := f.command(ctx, session, "/status")
		if err != nil {
			return nil, err
		}
		var running struct{ Running json.RawMessage }
		err = json.Unmarshal(reply.Data, &running)
		busy := len(running.Running) > 0 && string(running.Running) != "null"
		return map[string]any{"session": session, "running": busy, "status": reply.Data, "text": reply.Text}, err
	})
}

func (f *front) list(r request) (chore, error) {
	return r.simple(func(ctx context.Context, p params) (any, error) {
		var found struct {
			Sessions json.RawMessage `json:"sessions"`
		}
		if p.Search != "" {
			reply, err := f.command(ctx, newSessionID(), "/sessions "+p.Search)
			if err == nil {
				err = json.Unmarshal(reply.Data, &found)
			}
			return map[string]any{"sessions": found.Sessions}, err
		}
		path := "/api/sessions"
		if p.Limit > 0 {
			path += "?limit=" + strconv.Itoa(p.Limit)
		}
		err := f.call(ctx, http.MethodGet, path, nil, &found)
		return map[string]any{"sessions": found.Sessions}, err
	})
}

func (f *front) messages(r request) (chore, error) {
	return r.simple(func(ctx context.Context, p params) (any, error) {
		session, query := f.meant(p.Session), url.Values{"latest": {"true"}}
		if p.Limit > 0 {
			query.Set("limit", strconv.Itoa(p.Limit))
		}
		var rows struct{ Messages json.RawMessage }
		err := f.call(ctx, http.MethodGet, sessionPath(session, "/messages?"+query.Encode()), nil, &rows)
		return map[string]any{"session": session, "messages": rows.Messages}, err
	})
}

func (f *front) interrupt(r request) (chore, error) {
	return r.simple(func(ctx context.Context, p params) (any, error) {
		session := f.meant(p.Session)
		var done struct{ Stopped bool }
		err := f.call(ctx, http.MethodPost, sessionPath(session, "/stop"), map[string]string{"source": "cli"}, &done)
		return map[string]any{"session": session, "stopped": done.Stopped}, err
	})
}

// steer says something into the running turn.
func (f *front) steer(r request) (chore, error) { return f.beside(r, "steer") }

// queue says something after the turns before it.
func (f *front) queue(r request) (chore, error) { return f.beside(r, "queue") }

// beside has a message accepted by the daemon, whose turn no stream of ours tells of.
func (f *front) beside(r request, mode string) (chore, error) {
	return r.simple(func(ctx context.Context, p params) (any, error) {
		if strings.TrimSpace(p.Text) == "" {
			return nil, errMissing("text", "what is said")
		}
		session := f.meant(p.Session)
		var reply struct{ Accepted map[string]any }
		err := f.call(ctx, http.MethodPost, sessionPath(session, "/messages"), map[string]string{"text": p.Text, "mode": mode, "source": "cli"}, &reply)
		return map[string]any{"session": session, "accepted": reply.Accepted}, err
	})
}

func (f *front) approvals(r request) (chore, error) {
	return r.simple(func(ctx context.Context, p params) (any, error) {
		var found struct{ Approvals json.RawMessage }
		err := f.call(ctx, http.MethodGet, "/api/approvals?state=pending", nil, &found)
		return map[string]any{"approvals": found.Approvals}, err
	})
}

func (f *front) respond(r request) (chore, error) {
	return r.simple(func(ctx context.Context, p params) (any, error) {
		switch {
		case p.ID == "":
			return nil, errMissing("id", "the id of the approval")
		case p.Decision == "":
			return nil, errMissing("decision", "once, session, always or deny")
		}
		err := f.decide(ctx, url.PathEscape(p.ID), p.Decision)
		return map[string]any{"id": p.ID, "decision": p.Decision}, err
	})
}

// run runs a slash command. One that says something (/retry) becomes a turn like that of a prompt.
func (f *front) run(r request) (chore, error) {
	p, err := r.read()
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(p.Line) == "" {
		return nil, errMissing("line", "the command")
	}
	if _, err := slash.ParseLine(p.Line); err != nil {
		return nil, err
	}
	return f.prompt(r, p.Session, "/"+strings.TrimPrefix(strings.TrimSpace(p.Line), "/"), "")
}
