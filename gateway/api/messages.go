package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/slash"
)

// modeRefuse is a message for an idle conversation only.
const modeRefuse = "refuse"

// modes are what a message may do to a turn that runs, as clients call it.
var modes = map[string]gateway.Mode{
	"queue": gateway.ModeQueue, "steer": gateway.ModeSteer, "redirect": gateway.ModeRedirect, "interrupt": gateway.ModeInterrupt, modeRefuse: gateway.ModeQueue,
}

// posted is the body of a message.
type posted struct {
	Text, Mode, Source, UID string
	Wait                    bool
	Images                  []provider.Image
}

func (s *server) readPosted(r *http.Request) (posted, error) {
	o, err := s.jsonBody(r)
	if err != nil {
		return posted{}, err
	}
	var p posted
	if err := o.read(into("text", &p.Text), func(o object) error { return takeShown(o, &p.Images) }, into("mode", &p.Mode), into("uid", &p.UID), into("wait", &p.Wait), sourceInto(&p.Source)); err != nil {
		return posted{}, err
	}
	if strings.TrimSpace(p.Text) == "" && len(p.Images) == 0 {
		return posted{}, errField("text", "is empty; it is what is said")
	}
	if _, known := modes[p.Mode]; !known && p.Mode != "" {
		return posted{}, errField("mode", "must be queue, steer, redirect, interrupt or refuse, not %.50q", p.Mode)
	}
	return p, nil
}

// takeShown reads images: URLs, of their bytes or of where these are.
func takeShown(o object, images *[]provider.Image) error {
	var list []string
	if err := take(o, "images", &list); err != nil {
		return err
	}
	if len(list) > provider.MaxImages {
		return errCode(codePart, o.name("images"), "has %d images; %d are the most in a message", len(list), provider.MaxImages)
	}
	for i, address := range list {
		image, err := imageAt(fmt.Sprintf("%s[%d]", o.name("images"), i), address)
		if err != nil {
			return err
		}
		*images = append(*images, image)
	}
	return nil
}

// say answers POST /api/sessions/{session}/messages. The message is committed before the answer, 202, and its turn comes by itself;
// with wait the answer is a stream of the turn's events instead, and the turn ends with the client. A text that is a command is
// run.
func (s *server) say(w http.ResponseWriter, r *http.Request) {
	session, err := sessionParam(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	p, err := s.readPosted(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if err := s.fetch(r.Context(), p.Images); err != nil {
		s.fail(w, r, err)
		return
	}
	say := gateway.Say{Session: session, Source: p.Source, Text: p.Text, Images: p.Images, UID: cmp.Or(p.UID, onceUID(r.Context()))}
	if begunBefore(r.Context()) && s.recallSaid(w, r, say, p.Wait) {
		return
	}
	reply, command, err := s.run(r.Context(), slash.Context{Session: session, Source: p.Source}, p.Text)
	if err == nil && !command {
		say.Mode, err = s.mode(r.Context(), session, p.Mode)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if command {
		hasEffect(r.Context())
	}
	if command && reply.Say != nil {
		say = *reply.Say
		say.Images = p.Images
	}
	switch {
	case p.Wait:
		s.sayAndFollow(w, r, say, command, reply)
	case command:
		s.handle(func(r *http.Request) (answer, error) { return s.replied(r.Context(), reply) })(w, r)
	default:
		s.handle(func(r *http.Request) (answer, error) { return s.post(r.Context(), say) })(w, r)
	}
}

// mode is what a message means for a turn that runs: what it asks for, or what was chosen for the conversation.
func (s *server) mode(ctx context.Context, session, asked string) (gateway.Mode, error) {
	if asked == "" {
		settings, err := s.Sessions.Settings(ctx, session)
		if err == nil {
			asked = settings.Busy
		}
	}
	if asked == modeRefuse {
		for _, turn := range s.Chat.Status().Running {
			if turn.Session == session {
				return "", errTurnRuns(session)
			}
		}
	}
	return modes[asked], nil
}

func errTurnRuns(session string) *refusal {
	return &refusal{
		status: http.StatusConflict, code: "turn_running", noRetry: true, idle: true,
		message: fmt.Sprintf("a turn runs in session %s; the message was not stored. Wait for its end, or say with mode what the message means for it", session),
	}
}

func (s *server) post(ctx context.Context, say gateway.Say) (answer, error) {
	say.Detached = true
	accepted, err := s.Chat.Post(ctx, say)
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusAccepted, map[string]any{"object": "message.accepted", "accepted": accepted, "session": accepted.Session}}, nil
}

// sayAndFollow streams the reply of a command, and the turn of what is to be said.
func (s *server) sayAndFollow(w http.ResponseWriter, r *http.Request, say gateway.Say, command bool, reply slash.Reply) {
	out := s.newSSE(w)
	if command {
		body := replyBody(reply)
		body["turn"] = reply.Say != nil // whether one follows
		out.send("command", body)
		if reply.Say == nil {
			return
		}
	}
	if !s.enter() {
		if out.open {
			out.send("error", errTurns(s.MaxTurns).envelope())
			return
		}
		s.fail(w, r, errTurns(s.MaxTurns))
		return
	}
	defer s.leave()
	s.follow(w, r, out, func(ctx context.Context, sink func(gateway.Event)) outcome {
		result, err := s.Chat.Say(ctx, say, sink)
		return outcome{result, err}
	})
}
