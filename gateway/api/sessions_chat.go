package api

import (
	"context"
	"net/http"
	"time"

	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// readChat reads the body of a turn in a session: {"input"} as runs have it. An input of null says nothing: the model goes on from the results
// with which the session ends.
func (s *server) readChat(r *http.Request) (say gateway.Say, err error) {
	if say.Session, err = sessionParam(r); err != nil {
		return say, err
	}
	o, err := s.jsonBody(r)
	if err != nil {
		return say, err
	}
	var p prompt
	if err := o.read(later("input"), sourceInto(&say.Source)); err != nil {
		return say, err
	}
	if raw, there := o.fields["input"]; there && string(raw) == "null" {
		say.Continue = true
		_, err = s.Sessions.Session(r.Context(), say.Session)
		return say, err
	}
	if err := p.takeInput(o, "input"); err != nil {
		return say, err
	}
	if err := p.onward("input", "a session"); err != nil {
		return say, err
	}
	if p.System != "" {
		return say, errField("input", "has a system message; a session's instructions are given when it is made")
	}
	if err := s.fetch(r.Context(), p.Images); err != nil {
		return say, err
	}
	say.Text, say.Images, say.UID = p.Text, p.Images, onceUID(r.Context())
	_, err = s.Sessions.Session(r.Context(), say.Session)
	return say, err
}

// beginChat reads what is said and takes a place among the turns; false means that the request was refused.
func (s *server) beginChat(w http.ResponseWriter, r *http.Request) (say gateway.Say, begun bool) {
	say, err := s.readChat(r)
	if err == nil && !s.enter() {
		err = errTurns(s.MaxTurns)
	}
	if err != nil {
		s.fail(w, r, err)
		return say, false
	}
	nameSession(w.Header(), say.Session)
	return say, true
}

// chatOnce answers POST /api/sessions/{session}/chat: one turn, which ends with the client.
func (s *server) chatOnce(w http.ResponseWriter, r *http.Request) {
	say, begun := s.beginChat(w, r)
	if !begun {
		return
	}
	defer s.leave()
	shown := &items{}
	result, err := s.Chat.Say(r.Context(), say, shown.event)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if text := receiptOf(result); text != "" {
		w.Header().Set(headerReceipt, text)
	}
	if verdict := judge(result, shown.visible()); verdict.refused != nil {
		s.fail(w, r, verdict.refused)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "session.turn", "session_id": say.Session, "output": result.Text, "result": resultBody(result)})
}

// chatWords are the names that a turn's events have on …/chat/stream.
var chatWords = map[gateway.EventKind]string{
	gateway.EventDelta: "assistant.delta", gateway.EventReasoning: "reasoning.delta", gateway.EventToolStarted: "tool.started",
	gateway.EventToolFinished: "tool.completed", gateway.EventApproval: "approval", gateway.EventNotice: "notice", gateway.EventSteered: "steered", gateway.EventQueued: "queued",
}

// chatStream answers POST /api/sessions/{session}/chat/stream: the same turn event by event; the last one is run.completed, run.failed,
// run.cancelled or run.interrupted.
func (s *server) chatStream(w http.ResponseWriter, r *http.Request) {
	say, begun := s.beginChat(w, r)
	if !begun {
		return
	}
	defer s.leave()
	out := s.newSSE(w)
	s.tell(r, out, teller{
		event: func(e gateway.Event) {
			if word := chatWords[e.Kind]; word != "" && (e.Kind != gateway.EventReasoning || s.ShowReasoning) {
				out.send(word, chatBody(word, e))
			}
		},
		comment: out.comment,
		open: func() {
			if !out.open {
				out.comment("accepted")
			}
		},
		ended: func(end outcome) { s.chatEnded(w, r, out, end) },
	}, func(ctx context.Context, sink func(gateway.Event)) outcome {
		result, err := s.Chat.Say(ctx, say, sink)
		return outcome{result, err}
	})
}

func chatBody(word string, e gateway.Event) map[string]any {
	body := eventBody(e)
	body["event"], body["timestamp"] = word, float64(time.Now().UnixMilli())/1000
	if e.Kind == gateway.EventDelta || e.Kind == gateway.EventReasoning {
		body["delta"] = e.Text
		delete(body, "text")
	}
	return body
}

func (s *server) chatEnded(w http.ResponseWriter, r *http.Request, out *sse, end outcome) {
	if end.err != nil || r.Context().Err() != nil || out.err != nil || end.result.SinkDropped {
		s.ended(w, r, out, end)
		return
	}
	body := resultBody(end.result)
	word := "run." + statusOf(end.result)
	body["event"], body["output"] = word, end.result.Text
	out.send(word, body)
}

func statusOf(r gateway.Result) string {
	switch {
	case r.Completed:
		return sessiondb.RunCompleted
	case r.ExitReason == "interrupted(stop)":
		return sessiondb.RunCancelled
	case r.Interrupted:
		return sessiondb.RunInterrupted
	}
	return sessiondb.RunFailed
}
