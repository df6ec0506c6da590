package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"gatewayd/gateway"
	"gatewayd/internal/problem"
)

// watch answers GET /api/sessions/{session}/events: the events of whatever turns run in a session, for as long as the client
// stays. It begins with the turn that runs now, as far as it is still known; what ended before is in the rows.
func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	session, err := sessionParam(r)
	if err == nil {
		_, err = s.Sessions.Session(r.Context(), session)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := s.newSSE(w)
	out.comment("watching")
	s.follow(w, r, out, func(ctx context.Context, sink func(gateway.Event)) outcome {
		return outcome{err: s.watchUntilStop(ctx, session, sink)}
	})
}

// watchUntilStop watches a session until the client goes or the daemon stops: at once where nothing runs, else when the turn that runs
// has ended.
func (s *server) watchUntilStop(ctx context.Context, session string, sink func(gateway.Event)) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.Stopping != nil {
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-s.Stopping:
				if !s.runs(session) {
					cancel()
				}
			case <-done:
			}
		}()
	}
	err := s.Chat.Watch(watching, session, func(e gateway.Event) {
		sink(e)
		if e.Kind == gateway.EventEnded && s.stopping() {
			cancel()
		}
	})
	if err == nil && ctx.Err() == nil && s.stopping() {
		return &problem.Error{Kind: problem.Unavailable, Thing: "gatewayd", What: "is stopping", Fate: "what was said is stored", Remedy: "watch again when it runs"}
	}
	return err
}

// runs reports that a turn of a session runs.
func (s *server) runs(session string) bool {
	return slices.ContainsFunc(s.Chat.Status().Running, func(t gateway.RunningTurn) bool { return t.Session == session })
}

// follow writes the events of do until it returns, and its end.
func (s *server) follow(w http.ResponseWriter, r *http.Request, out *sse, do func(context.Context, func(gateway.Event)) outcome) {
	s.tell(r, out, teller{
		event:   func(e gateway.Event) { out.send(string(e.Kind), eventBody(e)) },
		comment: out.comment,
		open: func() {
			if !out.open {
				out.comment("accepted")
			}
		},
		ended: func(end outcome) { s.ended(w, r, out, end) },
	}, do)
}

// teller is the form in which a stream tells of turns.
type teller struct {
	event   func(gateway.Event)
	comment func(string)
	open    func() // when there was nothing to tell for so long that the headers have to go
	ended   func(outcome)
}

// tell runs do in a goroutine of its own and writes in this one: its events, a comment when there are none for a while, and its
// end. A client that is gone, or that does not read, ends do's context with ClientGone. It returns only after do has.
func (s *server) tell(r *http.Request, out *sse, as teller, do func(context.Context, func(gateway.Event)) outcome) {
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	events, done, over := make(chan gateway.Event), make(chan outcome, 1), make(chan struct{})
	defer close(over)
	go s.guarded(done, func() outcome {
		return do(ctx, func(e gateway.Event) {
			select {
			case events <- e:
			case <-over:
			}
		})
	})
	opening := time.NewTimer(s.OpenAfter)
	defer opening.Stop()
	alive := time.NewTicker(s.KeepAlive)
	defer alive.Stop()
	for {
		select {
		case e := <-events:
			as.event(e)
		case <-opening.C:
			as.open()
		case <-alive.C:
			as.comment("keep-alive")
		case end := <-done:
			as.ended(end)
			return
		}
		if out.err != nil {
			cancel(gateway.ClientGone) // whoever does not take what it is sent is gone
		}
	}
}

// ended writes how a stream ends: a refusal with its own status where nothing was written yet, else an event. A client that missed
// a part, or that is gone, gets no end that could be taken for one.
func (s *server) ended(w http.ResponseWriter, r *http.Request, out *sse, end outcome) {
	switch {
	case out.err != nil || end.result.SinkDropped || r.Context().Err() != nil && onceOf(r.Context()) == nil:
		if out.open {
			panic(http.ErrAbortHandler)
		}
	case end.err != nil && !out.open:
		s.fail(w, r, end.err)
	case end.err != nil:
		e := asRefusal(end.err)
		notDone(r.Context(), e)
		s.Log.Log(r.Context(), levelOf(e), "stream failed", "session", end.result.Session, "status", e.status, "error", end.err)
		out.send("error", e.envelope())
	case end.result.Session != "":
		out.send(string(gateway.EventEnded), resultBody(end.result))
	}
}

// eventBody is an event as clients read it; what it has not is left out.
func eventBody(e gateway.Event) map[string]any {
	body := map[string]any{}
	put := func(name, value string) {
		if value != "" {
			body[name] = value
		}
	}
	put("text", e.Text)
	put("tool", e.Tool)
	put("call_id", e.CallID)
	put("turn", e.Turn)
	put("life", e.Life)
	if e.Seq > 0 {
		body["seq"] = e.Seq
	}
	if e.Kind == gateway.EventToolStarted {
		body["label"] = Label(e.Text)
	}
	if e.Kind == gateway.EventToolFinished {
		body["failed"] = e.Err
	}
	if e.Approval != nil {
		body["approval"] = e.Approval
	}
	if e.Result != nil {
		body["result"] = resultBody(*e.Result)
	}
	return body
}

// resultBody is what became of a turn, with its last stored row, by which a client can prove what it was told.
func resultBody(result gateway.Result) map[string]any {
	body := about(result, judge(result, false))
	delete(body, "partial")
	body["text"], body["finish_reason"], body["retryable"], body["calls"] = result.Text, result.FinishReason, result.Retryable, result.Calls
	body["usage"] = usageBody(result.Usage)
	if len(result.PendingSteer) > 0 {
		body["pending_steer"] = result.PendingSteer
	}
	return body
}
