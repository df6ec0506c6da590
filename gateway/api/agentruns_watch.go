package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// watchAgentRun answers GET …/events: what the run has shown, and what it shows from now on, until its end. An event's id is the
// number to come back with, in Last-Event-ID or in after. Where events behind that number were dropped, a "gap" says so first. The stream
// reads what is stored, so a client that stands still holds nobody; it is cut off and may come back.
func (s *server) watchAgentRun(w http.ResponseWriter, r *http.Request) {
	if s.Runs == nil {
		s.fail(w, r, errOff("running in the background"))
		return
	}
	after, err := lastEventID(r)
	var run sessiondb.Run
	if err == nil {
		run, err = s.Runs.Get(r.Context(), ownerOf(r), chi.URLParam(r, "run_id"))
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	out := s.newSSE(w)
	out.comment("watching")
	if after < run.Forgotten {
		out.send("gap", map[string]any{"event": "gap", "run_id": run.ID, "after": after, "missing": run.Forgotten - after})
		after = run.Forgotten
	}
	s.tellRun(r, out, run.ID, after)
}

// lastEventID is the number behind which a client goes on.
func lastEventID(r *http.Request) (int64, error) {
	name, text := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if text == "" {
		name, text = "after", r.URL.Query().Get("after")
	}
	if text == "" || mutation.On("last-event-id-is-ignored") {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, errField(name, "must be the id of an event, not %.50q", text)
	}
	return n, nil
}

func (s *server) tellRun(r *http.Request, out *sse, id string, after int64) {
	for out.err == nil && r.Context().Err() == nil {
		events, over, err := s.nextOfRun(r.Context(), id, after)
		switch {
		case err != nil:
			out.send("error", asRefusal(err).envelope())
			return
		case over && len(events) == 0:
			return
		case len(events) == 0 && s.stopping():
			out.comment("gatewayd is stopping; come back with the id of the last event")
			return
		case len(events) == 0:
			out.comment("keep-alive")
		}
		for _, e := range events {
			after = e.Seq
			out.sendAt(strconv.FormatInt(e.Seq, 10), e.Name, json.RawMessage(e.Body))
		}
		if over {
			return
		}
	}
	if r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // who does not read gets no end that could be taken for one
	}
}

// nextOfRun waits for events for no longer than a connection may be silent, and no longer than the daemon runs.
func (s *server) nextOfRun(ctx context.Context, id string, after int64) ([]sessiondb.RunEvent, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.KeepAlive)
	defer cancel()
	if s.Stopping != nil {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-s.Stopping:
				cancel()
			case <-stop:
			}
		}()
	}
	return s.Runs.Next(ctx, id, after)
}

func (s *server) stopping() bool {
	select {
	case <-s.Stopping:
		return s.Stopping != nil
	default:
		return false
	}
}
