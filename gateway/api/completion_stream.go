package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"gatewayd/gateway"
	"gatewayd/internal/problem"
)

// outcome is how Say ended.
type outcome struct {
	result gateway.Result
	err    error
}

// stream answers event by event. The turn runs in a goroutine of its own, and this one writes: events, a comment when there are none for
// a while, and the end. It returns only after the turn has.
func (s *server) stream(w http.ResponseWriter, r *http.Request, c completion, say gateway.Say) {
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	events, done, over := make(chan gateway.Event), make(chan outcome, 1), make(chan struct{})
	defer close(over)
	go s.guarded(done, func() outcome {
		result, err := s.Chat.Say(ctx, say, func(e gateway.Event) {
			select {
			case events <- e:
			case <-over:
			}
		})
		return outcome{result, err}
	})
	out := s.newChunks(w, c)
	opening := time.NewTimer(s.OpenAfter)
	defer opening.Stop()
	alive := time.NewTicker(s.KeepAlive)
	defer alive.Stop()
	for {
		select {
		case e := <-events:
			out.event(e)
		case <-opening.C:
			out.begin()
		case <-alive.C:
			out.comment("keep-alive")
		case end := <-done:
			s.finish(w, r, c, out, end)
			return
		}
		if out.err != nil {
			cancel(gateway.ClientGone) // whoever does not take what it is sent is gone
		}
	}
}

func (s *server) newChunks(w http.ResponseWriter, c completion) *chunkWriter {
	return &chunkWriter{sse: s.newSSE(w), id: "chatcmpl-" + newID(), model: c.modelOr(), created: time.Now().Unix(), reasoning: s.ShowReasoning}
}

// guarded runs what a stream tells of. A panic of it must not cost the daemon because it is on a goroutine of ours.
func (s *server) guarded(done chan<- outcome, do func() outcome) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("stream panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			done <- outcome{err: &problem.Error{Kind: problem.Internal, Thing: "the conversation", What: "hit a bug in gatewayd"}}
		}
	}()
	done <- do()
}

// finish ends a stream. Before anything was written a refusal still gets its own status; afterwards it is the last event. A client that
// missed a part, or that is gone, gets no end that could be taken for one.
func (s *server) finish(w http.ResponseWriter, r *http.Request, c completion, out *chunkWriter, end outcome) {
	switch {
	case end.err != nil && !out.open:
		s.fail(w, r, end.err)
		return
	case end.err != nil:
		e := asRefusal(end.err)
		s.Log.Log(r.Context(), levelOf(e), "stream failed", "session", end.result.Session, "status", e.status, "error", end.err)
		out.last("error", nil, map[string]any{"error": e.envelope()["error"]}, false)
	case out.err != nil || end.result.SinkDropped:
		panic(http.ErrAbortHandler)
	default:
		verdict := judge(end.result, out.visible())
		extra := map[string]any{"gatewayd": receipt(end.result, verdict)}
		if verdict.refused != nil {
			if !out.open {
				s.fail(w, r, verdict.refused)
				return
			}
			extra["error"] = verdict.refused.envelope()["error"]
			verdict.finish = "error"
		} else {
			out.text(rest(out.shown.String(), end.result.Text))
		}
		out.last(verdict.finish, usageBody(end.result.Usage), extra, c.IncludeUsage)
	}
	if out.err != nil {
		panic(http.ErrAbortHandler)
	}
}

func levelOf(e *refusal) slog.Level {
	if e.status >= 500 {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}
