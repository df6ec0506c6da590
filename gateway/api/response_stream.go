package api

import (
	"context"
	"net/http"
	"time"

	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// responseStream tells a response event by event.
type responseStream struct {
	*sse
	numbered
	at  *seat
	out *items

	said time.Time // the last piece of text
	gone <-chan struct{}
}

func (o *responseStream) tell(kind string, body map[string]any) {
	o.send(kind, o.put(kind, body))
}

// begin sends the headers and the first events, once.
func (o *responseStream) begin() {
	if o.start() {
		for _, kind := range []string{"response.created", "response.in_progress"} {
			o.tell(kind, map[string]any{"response": responseBody(o.at.Response)})
		}
	}
}

// event shows what happened in the turn. Pieces of text are kept apart.
func (o *responseStream) event(e gateway.Event) {
	switch e.Kind {
	case gateway.EventDelta:
		o.begin()
		o.rest()
		o.out.event(e)
		o.said = time.Now()
	case gateway.EventToolStarted, gateway.EventToolFinished:
		o.begin()
		o.out.event(e)
	case gateway.EventApproval:
		o.begin()
		if e.Approval != nil {
			o.send(approvalEvent, o.put(approvalEvent, map[string]any{"approval": e.Approval, "tool": e.Tool, "call_id": e.CallID}))
		}
	case gateway.EventNotice:
		o.begin()
		o.comment(e.Text)
	}
}

// rest waits for the place of the next piece of text.
func (o *responseStream) rest() {
	left := textPace - time.Since(o.said)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.gone:
	}
}

// streamResponse answers event by event. When the client goes the turn ends, and what there is of the response is stored.
func (s *server) streamResponse(w http.ResponseWriter, r *http.Request, at seat, say gateway.Say) {
	out := &responseStream{sse: s.newSSE(w), at: &at, out: &items{id: at.ID[len("resp_"):]}, gone: r.Context().Done()}
	out.out.emit = out.tell
	s.tell(r, out.sse, teller{
		event: out.event, open: out.begin, ended: func(end outcome) { s.responseEnded(w, r, out, end) },
		comment: func(text string) { out.begin(); out.comment(text) },
	}, func(ctx context.Context, sink func(gateway.Event)) outcome {
		result, err := s.Chat.Say(ctx, say, sink)
		return outcome{result, err}
	})
}

// responseEnded ends a stream. Before anything was written a refusal still gets its own status; afterwards the response has failed.
func (s *server) responseEnded(w http.ResponseWriter, r *http.Request, out *responseStream, end outcome) {
	if end.err != nil {
		s.unmake(r.Context(), *out.at)
		if !out.open {
			s.fail(w, r, end.err)
			return
		}
		e := asRefusal(end.err)
		s.Log.Log(r.Context(), levelOf(e), "stream failed", "session", out.at.Session, "status", e.status, "error", end.err)
		out.at.Status = sessiondb.ResponseFailed
		out.at.Result = marshalled(responseResult{Error: map[string]any{"code": e.code, "message": e.message}})
		out.tell("response.failed", map[string]any{"response": responseBody(out.at.Response)})
		return
	}
	if end.result.SinkDropped { // pieces are missing: what is stored is read from the rows
		out.out = &items{id: out.out.id}
		if rows, err := s.Responses.TurnOf(context.WithoutCancel(r.Context()), out.at.UID); err == nil {
			out.out.rows(rows)
		}
	}
	if !out.open && judge(end.result, out.out.visible()).refused == nil {
		out.begin()
	}
	told, verdict := out.at.ending(end.result, out.out)
	s.keep(r.Context(), out.at, out.out, told)
	switch {
	case out.err != nil || end.result.SinkDropped:
		panic(http.ErrAbortHandler)
	case verdict.refused != nil && !out.open:
		s.fail(w, r, verdict.refused)
		return
	}
	now := time.Now()
	out.at.EndedAt = &now
	out.tell("response."+out.at.Status, map[string]any{"response": responseBody(out.at.Response)})
	if out.err != nil {
		panic(http.ErrAbortHandler)
	}
}
