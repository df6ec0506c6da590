package api

import (
	"fmt"
	"net/http"

	"gatewayd/gateway"
	"gatewayd/gateway/slash"
	"gatewayd/sessiondb"
)

// recall answers a chat whose request was begun before, from the rows: with the answer where there is one, with the truth where the
// turn was cut off. False means that nothing of it was stored, so that it may be done now: no model was asked without its row.
func (s *server) recall(w http.ResponseWriter, r *http.Request, c completion) bool {
	said, found, err := s.said(r, onceUID(r.Context()), c.Text)
	switch {
	case err != nil:
		s.fail(w, r, err)
	case found:
		nameSession(w.Header(), said.Session)
		s.recalled(w, r, c, said)
	}
	return found || err != nil
}

// said finds the turn of a message. What a command did is in no row of its own, so of one it cannot be known.
func (s *server) said(r *http.Request, uid, text string) (sessiondb.Said, bool, error) {
	if _, command, _ := slash.Parse(text); command && s.Commands != nil {
		return sessiondb.Said{}, false, &refusal{
			status: http.StatusConflict, code: "idempotency_unknown", param: headerOnce, noRetry: true,
			message: headerOnce + ": this command was begun, and the daemon ended before it had answered; whether it was run is not known. It was not run again: look, then use a new key",
		}
	}
	return s.Once.Said(r.Context(), uid)
}

// recalled writes what the rows tell of a turn in the form that was asked for.
func (s *server) recalled(w http.ResponseWriter, r *http.Request, c completion, said sessiondb.Said) {
	result, err := resultOf(said)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set(headerReplayed, "true")
	end := judge(result, true)
	about := about(result, end)
	about["recalled"] = true
	if c.Stream {
		out := s.newChunks(w, c)
		out.text(result.Text)
		out.last(end.finish, nil, map[string]any{"gatewayd": about}, c.IncludeUsage)
		return
	}
	nameTurn(w.Header(), result)
	writeJSON(w, http.StatusOK, c.whole("chatcmpl-"+result.TurnID, result.Text, end.finish, nil, about))
}

// resultOf is the result of a turn as its rows tell it. Usage is not told again.
func resultOf(said sessiondb.Said) (gateway.Result, error) {
	last, answered := said.Answer()
	if !answered {
		return gateway.Result{}, errCutOff(said)
	}
	return gateway.Result{
		Session: said.Session, TurnID: said.Turn, Text: last.Content, FinishReason: last.FinishReason, ExitReason: "text_response", Completed: true, LastRow: last.ID,
		Digest: said.Receipt().Digest,
	}, nil
}

func errCutOff(said sessiondb.Said) *refusal {
	e := &refusal{status: http.StatusConflict, code: "interrupted", param: headerOnce, noRetry: true}
	if said.Pending {
		e.message = fmt.Sprintf("%s: the message is stored in session %s and its turn has not ended; it was not said again. Read the session, or follow its events", headerOnce, said.Session)
		e.code = "idempotency_running"
		return e
	}
	e.message = fmt.Sprintf("%s: the message is stored in session %s, and its turn ended without an answer; it was not said again. Read the session, and go on there under a new key", headerOnce, said.Session)
	return e
}

// recallSaid is recall for a message to a conversation. Without waiting it is accepted once more, which the uid makes the same message.
func (s *server) recallSaid(w http.ResponseWriter, r *http.Request, say gateway.Say, wait bool) bool {
	said, found, err := s.said(r, say.UID, say.Text)
	switch {
	case err != nil:
		s.fail(w, r, err)
		return true
	case !wait || !found:
		return false
	}
	result, err := resultOf(said)
	if err != nil {
		s.fail(w, r, err)
		return true
	}
	w.Header().Set(headerReplayed, "true")
	s.newSSE(w).send(string(gateway.EventEnded), resultBody(result))
	return true
}
