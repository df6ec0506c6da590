package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"gatewayd/gateway/slash"
	"gatewayd/internal/terminal"
	"gatewayd/sessiondb"
)

// complete gives the ways to go on with a line that is a command.
func (d *desk) complete(ctx context.Context, typed string) []terminal.Choice {
	name, args, argued := strings.Cut(strings.TrimPrefix(typed, "/"), " ")
	if !strings.HasPrefix(typed, "/") || strings.Contains(typed, "\n") {
		return nil
	}
	if !argued {
		return commandNames(name)
	}
	var out []terminal.Choice
	for _, c := range d.arguments(ctx, strings.ToLower(name)) {
		if hasFold(c.Line, args) || hasFold(c.About, args) && args != "" {
			c.Label = c.Line
			c.Line = "/" + name + " " + c.Line
			out = append(out, c)
		}
	}
	return out
}

func hasFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// commandNames are the commands that begin with a name.
func commandNames(begin string) (out []terminal.Choice) {
	for _, c := range slash.Commands() {
		if hasFold(c.Name, begin) {
			next := "/" + c.Name
			if c.Args != "" {
				next += " "
			}
			out = append(out, terminal.Choice{Line: next, Label: strings.TrimSpace("/" + c.Name + " " + c.Args), About: c.About})
		}
	}
	return out
}

// arguments are what may follow a command; Line is the argument alone.
func (d *desk) arguments(ctx context.Context, command string) []terminal.Choice {
	switch command {
	case "resume":
		return sessionChoices(ctx, d.dial)
	case "model":
		return d.modelChoices(ctx)
	case "approve", "deny":
		return d.approvalChoices(ctx)
	case "busy":
		return choicesOf("queue", "steer", "redirect", "interrupt")
	case "compress", "compact":
		return choicesOf("--preview", "here")
	case "new", "reset":
		return choicesOf("now")
	case "help", "commands":
		var out []terminal.Choice
		for _, c := range slash.Commands() {
			out = append(out, terminal.Choice{Line: c.Name, About: c.About})
		}
		return out
	}
	return nil
}

func choicesOf(words ...string) (out []terminal.Choice) {
	for _, w := range words {
		out = append(out, terminal.Choice{Line: w})
	}
	return out
}

// mostOffered is how many conversations, or cards, are offered.
const mostOffered = "60"

// newest gives the conversations that were talked in last.
func newest(ctx context.Context, dial func() (*client, error)) []sessiondb.Session {
	cl, err := dial()
	if err != nil {
		return nil
	}
	var answer struct{ Sessions []sessiondb.Session }
	_ = cl.call(ctx, http.MethodGet, "/api/sessions?limit="+mostOffered, nil, &answer) // none are offered where none can be had
	return answer.Sessions
}

// sessionChoices are the conversations that there are: by title where they have one.
func sessionChoices(ctx context.Context, dial func() (*client, error)) (out []terminal.Choice) {
	for _, s := range newest(ctx, dial) {
		if s.Title == "" {
			out = append(out, terminal.Choice{Line: line(s.ID), About: short(s.Preview)})
			continue
		}
		out = append(out, terminal.Choice{Line: line(s.Title), About: line(s.ID)})
	}
	return out
}

func (d *desk) modelChoices(ctx context.Context) (out []terminal.Choice) {
	session := *d.settled.Load()
	reply, err := ask(d, func(cl *client) (commandReply, error) { return cl.command(ctx, session, "/model") })
	if err != nil {
		return nil
	}
	var there struct{ Models []string }
	_ = json.Unmarshal(reply.Data, &there)
	for _, name := range there.Models {
		out = append(out, terminal.Choice{Line: line(name)})
	}
	return append(out, terminal.Choice{Line: "default", About: "the configured one"})
}

func (d *desk) approvalChoices(ctx context.Context) (out []terminal.Choice) {
	answer, err := ask(d, func(cl *client) (answer struct{ Approvals []approval }, err error) {
		err = cl.call(ctx, http.MethodGet, "/api/approvals", nil, &answer)
		return answer, err
	})
	if err != nil {
		return nil
	}
	for _, a := range answer.Approvals {
		out = append(out, terminal.Choice{Line: a.ID, About: short(a.Effect)})
	}
	return out
}
