package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gatewayd/config"
	"gatewayd/internal/netguard"
	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// target is something that a message can be sent to.
type target interface {
	send(ctx context.Context, m message) outcome
}

// message is what a target gets.
type message struct {
	key, kind, task string
	board           kanban.Slug
	body            []byte
}

// newMessage makes the bytes that are sent, the same at each attempt. type and timestamp are what the standard recommends.
func newMessage(board kanban.Slug, p kanban.Parcel) (message, error) {
	body, err := json.Marshal(struct {
		Type      string          `json:"type"`
		Timestamp string          `json:"timestamp"`
		Key       string          `json:"key"`
		Board     kanban.Slug     `json:"board"`
		Event     json.RawMessage `json:"event"`
		Task      json.RawMessage `json:"task"`
	}{"card." + p.Kind, time.Unix(p.CreatedAt, 0).UTC().Format(time.RFC3339), p.Key, board, member(p.Body, "event"), member(p.Body, "task")})
	return message{key: p.Key, kind: p.Kind, task: p.Task, board: board, body: body}, err
}

func member(body json.RawMessage, name string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil || all[name] == nil {
		return json.RawMessage("null")
	}
	return all[name]
}

// Targets is what can be told of events from this home.
type Targets struct {
	config   config.Notify
	env      []string
	dir      string
	runner   Runner
	sessions Sessions
	guard    netguard.Guard
	limit    time.Duration // of one request
}

// NewTargets reads the configuration. runner and sessions may be nil for who only wants Check.
func NewTargets(c config.Notify, environ config.Environ, home string, runner Runner, sessions Sessions) *Targets {
	env := append(environ.Allow("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"), "GATEWAYD_HOME="+home)
	return &Targets{
		config: c, env: env, dir: filepath.Join(home, "notify"), runner: runner, sessions: sessions, guard: netguard.Guard{AllowPrivate: c.AllowPrivate}, limit: webhookTime,
	}
}

// find gives a target, or nil where this daemon does not know it: another one may.
func (t *Targets) find(ctx context.Context, kind, address string) (target, error) {
	switch kind {
	case kanban.TargetWebhook:
		if w, known := t.config.Webhooks[address]; known {
			return webhook{w.URL, w.Key, t.guard.Client(t.limit), t.limit}, nil
		}
	case kanban.TargetCommand:
		if argv := t.config.Commands[address].Argv; len(argv) > 0 && t.runner != nil {
			return command{argv, t.env, t.dir, t.runner}, nil
		}
	case kanban.TargetSession:
		if t.sessions == nil {
			return nil, nil
		}
		if known, err := t.sessions.Has(ctx, address); err != nil || !known {
			return nil, err
		}
		return session{address, t.sessions}, nil
	}
	return nil, nil
}

// Check refuses a target that this home could not deliver to. A session is asked for only where there are sessions to ask.
func (t *Targets) Check(ctx context.Context, kind, address string) error {
	switch kind {
	case kanban.TargetWebhook:
		return checkName(kind, address, slices.Sorted(maps.Keys(t.config.Webhooks)))
	case kanban.TargetCommand:
		return checkName(kind, address, slices.Sorted(maps.Keys(t.config.Commands)))
	case kanban.TargetSession:
		if t.sessions == nil {
			return nil
		}
		if known, err := t.sessions.Has(ctx, address); err != nil || known {
			return err
		}
		return &problem.Error{
			Kind: problem.NotFound, Thing: fmt.Sprintf("session %q", address), What: "is not in this home", Fate: "nothing was changed",
			Remedy: "list the sessions with `gatewayd sessions list`",
		}
	}
	return nil // the board refuses it
}

func checkName(kind, name string, known []string) error {
	if slices.Contains(known, name) {
		return nil
	}
	p := &problem.Error{
		Kind: problem.Invalid, Thing: fmt.Sprintf("%s %q", kind, name), What: "is not configured", Fate: "nothing was changed",
		Remedy: fmt.Sprintf("add it to kanban.notify.%ss in config.yaml and restart gatewayd", kind),
	}
	if len(known) > 0 {
		p.Remedy = "use one of " + strings.Join(known, ", ") + ", or " + p.Remedy
	}
	return p
}
