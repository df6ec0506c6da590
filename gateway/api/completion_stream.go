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

// stream answers event by event.
func (s *server) stream(w http.ResponseWriter, r *http.Request, c completion, say gateway.Say) {
	out := s.newChunks(w, c)
	s.tell(r, out.sse, teller{event: out.event, comment: out.comment, open: out.begin, ended: func(end outcome) { s.finish(w, r, c, out, end) }},
		func(ctx context.Context, sink func(gateway.Event)) outcome {
			result, err := s.Chat.Say(ctx, say, sink)
			return outcome{result, err}
		})
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
		notDone(r.Context(), e)
		s.Log.Log(r.Context(), levelOf(e), "stream failed", "session", end.result.Session, "status", e.status, "error", end.err)
		out.last("error", nil, map[string]any{"error": e.envelope()["error"]}, false)
	case out.err != nil || end.result.SinkDropped:
		panic(http.ErrAbortHandler)
	default:
		verdict := judge(end.result, out.visible())
		extra := map[string]any{"gatewayd": about(end.result, verdict)}
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
