package api

import (
	"net/http"
	"strings"

	"gatewayd/sessiondb"
)

// recallResponse answers a request for a response that was begun before, from what is stored of it. False means that its message was not
// stored, so that it may be made now.
func (s *server) recallResponse(w http.ResponseWriter, r *http.Request, want responseAsk) bool {
	one, stored, err := s.Responses.ResponseOf(r.Context(), ownerOf(r), onceUID(r.Context()))
	if err != nil {
		s.fail(w, r, err)
		return true
	}
	run, found, err := s.runOf(r.Context(), one)
	if err == nil && found {
		err = s.recalledRun(w, r, one, run)
	}
	if err != nil {
		s.fail(w, r, err)
		return true
	}
	return found || s.recallTurn(w, r, want, one, stored)
}

// recalledRun answers with a response that a run makes, as it is now.
func (s *server) recalledRun(w http.ResponseWriter, r *http.Request, one sessiondb.Response, run sessiondb.Run) error {
	one, err := s.settled(r.Context(), one)
	if err != nil {
		return err
	}
	w.Header().Set(headerReplayed, "true")
	body := responseBody(one)
	body["gatewayd"] = map[string]any{"session": one.Session, "run": run.ID}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// recallTurn is recallResponse for a response that no run makes.
func (s *server) recallTurn(w http.ResponseWriter, r *http.Request, want responseAsk, one sessiondb.Response, stored bool) bool {
	said, found, err := s.Once.Said(r.Context(), onceUID(r.Context()))
	switch {
	case err != nil:
	case !found && stored: // its process ended between the two: no half of it remains
		err = s.Responses.DeleteResponse(r.Context(), one.Owner, one.ID)
	case found:
		if _, answered := said.Answer(); !answered {
			err = errCutOff(said)
			break
		}
		if !stored {
			one = unstored(want, said)
		}
		err = s.tellAgain(w, r, want, seat{Response: one, stored: stored}, said)
	}
	if err != nil {
		s.fail(w, r, err)
	}
	return found || err != nil
}

// unstored is a response that only its rows tell of. Its session is named for it.
func unstored(want responseAsk, said sessiondb.Said) sessiondb.Response {
	return sessiondb.Response{
		ID: "resp_" + strings.TrimPrefix(said.Session, "resp-"), Session: said.Session, Previous: want.Previous, Conversation: want.Conversation,
		Status: sessiondb.ResponseInProgress, Request: marshalled(want.repeated()), CreatedAt: said.Rows[0].CreatedAt,
	}
}

// tellAgain tells a response from the rows of its turn, in the form that was asked for.
func (s *server) tellAgain(w http.ResponseWriter, r *http.Request, want responseAsk, at seat, said sessiondb.Said) error {
	h := w.Header()
	nameSession(h, at.Session)
	h.Set(headerResponse, at.ID)
	h.Set(headerReplayed, "true")
	h.Set(headerTurn, said.Turn)
	h.Set(headerReceipt, said.Receipt().String())
	out := &items{id: strings.TrimPrefix(at.ID, "resp_")}
	var told *responseStream
	if want.Stream {
		told = &responseStream{sse: s.newSSE(w), at: &at, out: out, gone: r.Context().Done()}
		out.emit = told.tell
		told.begin()
	}
	out.rows(said.Rows)
	s.keep(r.Context(), &at, out, at.told(said.Rows, sessiondb.Run{}))
	end := at.Response
	end.EndedAt = &said.Rows[len(said.Rows)-1].CreatedAt
	if at.stored {
		stored, err := s.Responses.Response(r.Context(), at.Owner, at.ID)
		if err != nil {
			return err
		}
		end = stored
	}
	if want.Stream {
		told.tell("response."+end.Status, map[string]any{"response": responseBody(end)})
		return nil
	}
	writeJSON(w, http.StatusOK, responseBody(end))
	return nil
}

// recallRun finds the run of a request that was begun before. Where nothing of it is stored it may be begun now.
func (s *server) recallRun(r *http.Request) (run sessiondb.Run, found bool, err error) {
	ctx, owner, uid := r.Context(), ownerOf(r), onceUID(r.Context())
	list, err := s.Runs.List(ctx, sessiondb.RunFilter{Owner: &owner, UID: uid, Limit: 1})
	if err != nil {
		return run, false, err
	}
	if len(list) > 0 {
		onceOf(ctx).flight.Header().Set(headerReplayed, "true")
		return list[0], true, nil
	}
	said, found, err := s.Once.Said(ctx, uid)
	if err != nil {
		return run, false, err
	}
	if found {
		return run, true, &refusal{
			status: http.StatusConflict, code: "idempotency_unknown", param: headerOnce, noRetry: true,
			message: headerOnce + ": the message is stored in session " + said.Session + ", and its run is not kept any more; it was not said again. Read the session",
		}
	}
	if one, stored, err := s.Responses.ResponseOf(ctx, owner, uid); err != nil || stored {
		if err == nil {
			err = s.Responses.DeleteResponse(ctx, owner, one.ID)
		}
		return run, false, err
	}
	return run, false, nil
}
