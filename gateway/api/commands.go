package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/slash"
)

// Commands runs what begins with a slash: slash.Runner.
type Commands interface {
	Run(ctx context.Context, c slash.Context, text string) (slash.Reply, bool, error)
	RunLine(ctx context.Context, c slash.Context, line string) (slash.Reply, error)
}

// talkRoutes are what a person does in a conversation beside reading it.
func (s *server) talkRoutes(r chi.Router) {
	to := s.behind(r)
	to.read.Get("/api/commands", s.handle(s.listCommands))
	to.chat.Post("/api/sessions", s.handle(s.createSession))
	to.chat.Patch("/api/sessions/{session}", s.handle(s.patchSession))
	to.chat.Post("/api/sessions/{session}/commands", s.handle(s.command))
	to.chat.Post("/api/sessions/{session}/messages", s.say)
	to.chat.Post("/api/sessions/{session}/stop", s.handle(s.stop))
	to.read.With(s.bounded).Get("/api/sessions/{session}/events", s.watch)
}

// sessionParam is the session that a path names. It need not exist: saying something in it makes it.
func sessionParam(r *http.Request) (string, error) {
	id := chi.URLParam(r, "session")
	if !usableSession(id) {
		return "", errField("session", "must be 1 to %d letters, digits and . _ : @ -", maxSessionID)
	}
	return id, nil
}

// sources are where a client may say that a message comes from. It holds the key, so it is believed.
var sources = map[string]bool{"": true, gateway.SourceAPI: true, gateway.SourceCLI: true, gateway.SourceWeb: true}

func sourceInto(dst *string) func(object) error {
	return func(o object) error {
		*dst = gateway.SourceAPI
		if err := take(o, "source", dst); err != nil {
			return err
		}
		if !sources[*dst] {
			return errField("source", "must be api, cli or web, not %.50q", *dst)
		}
		return nil
	}
}

// listCommands answers GET /api/commands.
func (s *server) listCommands(*http.Request) (answer, error) {
	return ok(map[string]any{"object": "list", "commands": slash.Commands()})
}

// command answers POST /api/sessions/{session}/commands. A command that says something (/retry) has it said by itself: accepted
// tells.
func (s *server) command(r *http.Request) (answer, error) {
	session, err := sessionParam(r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.jsonBody(r)
	if err != nil {
		return answer{}, err
	}
	var line *string
	var source string
	if err := o.read(wanted("line", &line), sourceInto(&source)); err != nil {
		return answer{}, err
	}
	if s.Commands == nil {
		return answer{}, errOff("slash commands")
	}
	reply, err := s.Commands.RunLine(r.Context(), slash.Context{Session: session, Source: source}, *line)
	if err != nil {
		return answer{}, err
	}
	hasEffect(r.Context())
	return s.replied(r.Context(), reply)
}

// replied answers with a command's reply, and has said what it wants said.
func (s *server) replied(ctx context.Context, reply slash.Reply) (answer, error) {
	body := replyBody(reply)
	if reply.Say == nil {
		return ok(body)
	}
	say := *reply.Say
	say.Detached = true
	accepted, err := s.Chat.Post(ctx, say)
	body["accepted"] = accepted
	return answer{http.StatusAccepted, body}, err
}

func replyBody(reply slash.Reply) map[string]any {
	return map[string]any{"object": "command.reply", "text": reply.Text, "data": reply.Data, "session": reply.Session}
}

// run runs a text as a command where it is one.
func (s *server) run(ctx context.Context, c slash.Context, text string) (slash.Reply, bool, error) {
	if s.Commands == nil {
		return slash.Reply{}, false, nil
	}
	return s.Commands.Run(ctx, c, text)
}

// answerCommand is a command's answer where a chat program expects the model's. What cannot be done is said in words too: such a
// program has no other place for it.
func (s *server) answerCommand(w http.ResponseWriter, r *http.Request, c completion, reply slash.Reply, err error) {
	about := map[string]any{"session": reply.Session, "command": true, "data": reply.Data}
	if err != nil {
		e := asRefusal(err)
		if e.status >= http.StatusInternalServerError {
			s.fail(w, r, err)
			return
		}
		reply.Text, about["error_code"] = e.message, e.code
	}
	nameSession(w.Header(), reply.Session)
	if c.Stream {
		out := s.newChunks(w, c)
		out.text(reply.Text)
		out.last("stop", usageBody(provider.Usage{}), map[string]any{"gatewayd": about}, c.IncludeUsage)
		return
	}
	writeJSON(w, http.StatusOK, c.whole("chatcmpl-"+newID(), reply.Text, "stop", usageBody(provider.Usage{}), about))
}

// withoutCommands is the conversation of a client that tells it whole, as it counts: what was said to commands is no part of it,
// and what they did to the stored one is done to the told one too. Otherwise the next message would begin a branch.
func withoutCommands(history []provider.Message) []provider.Message {
	var out []provider.Message
	for i := 0; i < len(history); {
		end := i + 1
		for end < len(history) && !isUser(history[end]) {
			end++
		}
		exchange := history[i:end]
		i = end
		if line, command, err := slash.Parse(exchange[0].Content); !isUser(exchange[0]) || !command {
			out = append(out, exchange...)
		} else if err == nil {
			out = afterCommand(out, line, exchange[1:])
		}
	}
	return out
}

// afterCommand does to a told conversation what a command did to the stored one.
func afterCommand(told []provider.Message, line slash.Line, answers []provider.Message) []provider.Message {
	switch line.Command.Name {
	case "new":
		return nil
	case "undo":
		n, ok := slash.Exchanges(line)
		if !ok {
			return told
		}
		return cutExchanges(told, n)
	case "retry":
		last := len(told) - 1
		for last >= 0 && !isUser(told[last]) {
			last--
		}
		if last < 0 {
			return told
		}
		return append(told[:last+1:last+1], answers...)
	case "queue", "steer":
		if line.Args != "" {
			told = append(told[:len(told):len(told)], provider.Message{Role: "user", Content: line.Args})
			return append(told, answers...)
		}
	}
	return told
}

// cutExchanges takes the last n exchanges away; with fewer there are none to take.
func cutExchanges(told []provider.Message, n int) []provider.Message {
	for i := len(told) - 1; i >= 0; i-- {
		if !isUser(told[i]) {
			continue
		}
		if n--; n == 0 {
			return told[:i]
		}
	}
	return told
}
