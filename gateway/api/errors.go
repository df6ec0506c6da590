package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"gatewayd/gateway"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/sessiondb"
)

// refusal is an answer that is an error. Message is for a person; Code is stable; Param names the field that is wrong.
type refusal struct {
	status     int
	message    string
	code       string
	param      string
	retryAfter time.Duration
	noRetry    bool // a client library must not send it again by itself, mostly because the turn began
	idle       bool // with noRetry: nothing was done all the same
	cause      error
}

func (e *refusal) Error() string { return e.message }
func (e *refusal) Unwrap() error { return e.cause }

// statuses is the one table from a kind of trouble to a status and a code.
var statuses = map[problem.Kind]struct {
	status int
	code   string
	retry  time.Duration
}{
	problem.Invalid:     {http.StatusBadRequest, "invalid_request", 0},
	problem.NotFound:    {http.StatusNotFound, "not_found", 0},
	problem.Conflict:    {http.StatusConflict, "conflict", 0},
	problem.Denied:      {http.StatusForbidden, "denied", 0},
	problem.Busy:        {http.StatusTooManyRequests, "busy", time.Second},
	problem.Unavailable: {http.StatusServiceUnavailable, "unavailable", 5 * time.Second},
	problem.Damaged:     {http.StatusServiceUnavailable, "damaged", 0},
	problem.Full:        {http.StatusInsufficientStorage, "full", 0},
	problem.Config:      {http.StatusInternalServerError, "configuration", 0},
	problem.NotRunning:  {http.StatusServiceUnavailable, "not_running", 5 * time.Second},
	problem.Restart:     {http.StatusServiceUnavailable, "restarting", 5 * time.Second},
	problem.Interrupted: {http.StatusServiceUnavailable, "interrupted", 0},
	problem.Internal:    {http.StatusInternalServerError, "internal_error", 0},
}

// internalMessage is all that a client learns of a bug of ours; the log has the rest.
const internalMessage = "internal error; the daemon's log has the details"

// asRefusal gives any error its status. What is no problem for a person is ours, and its words stay here.
func asRefusal(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errTooLarge(tooLarge.Limit)
	}
	if p, ok := errors.AsType[*problem.Error](err); ok && p.Kind != problem.Internal {
		entry, known := statuses[p.Kind]
		if !known {
			entry = statuses[problem.Internal]
		}
		r := &refusal{status: entry.status, code: entry.code, message: p.Error(), param: p.Field, retryAfter: entry.retry, cause: err}
		if errors.Is(err, sessiondb.ErrSpooled) { // it is kept; sent again it would be there twice
			r.code, r.retryAfter, r.noRetry = "kept_not_stored", 0, true
		}
		if errors.Is(err, gateway.ErrAccepted) {
			r.retryAfter, r.noRetry = 0, true
		}
		return r
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &refusal{status: http.StatusServiceUnavailable, code: "interrupted", message: "the request was ended before it was answered", cause: err}
	}
	return &refusal{status: http.StatusInternalServerError, code: "internal_error", message: internalMessage, cause: err}
}

// did reports that the request may have had an effect. All other refusals come before anything was done.
func (e *refusal) did() bool {
	switch {
	case e.status == http.StatusInternalServerError, e.status == http.StatusBadGateway, sqlite.IsCommitted(e.cause):
		return true
	}
	return e.noRetry && !e.idle
}

// kind is OpenAI's type, by which client libraries choose their exception.
func (e *refusal) kind() string {
	switch {
	case e.status == http.StatusUnauthorized:
		return "authentication_error"
	case e.status == http.StatusForbidden:
		return "permission_error"
	case e.status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case e.status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// envelope is the body of every refusal.
func (e *refusal) envelope() map[string]any {
	body := map[string]any{"message": e.message, "type": e.kind(), "param": nil, "code": e.code}
	if e.param != "" {
		body["param"] = e.param
	}
	return map[string]any{"error": body}
}

// fail answers with an error and logs those that are not the caller's.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asRefusal(err)
	notDone(r.Context(), e)
	if e.status >= 500 && r.Context().Err() == nil {
		s.Log.Warn("request failed", "method", r.Method, "path", r.URL.Path, "status", e.status, "error", err)
	}
	h := w.Header()
	if e.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.retryAfter+time.Second-1)/time.Second)))
	}
	if e.noRetry {
		h.Set("X-Should-Retry", "false")
	}
	if e.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="gatewayd"`)
	}
	writeJSON(w, e.status, e.envelope())
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	data, ready := body.(encoded)
	if !ready {
		var err error
		if data, err = encode(body); err != nil {
			status, data = http.StatusInternalServerError, encoded(`{"error":{"message":"`+internalMessage+`","type":"server_error","param":null,"code":"internal_error"}}`+"\n")
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// encoded is JSON that is sent as it is.
type encoded []byte

func encode(body any) (encoded, error) {
	data, err := json.Marshal(body)
	return append(data, '\n'), err
}

func errField(param, format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, code: "invalid_value", param: param, message: param + ": " + fmt.Sprintf(format, args...)}
}

func errTooLarge(limit int64) *refusal {
	return &refusal{
		status: http.StatusRequestEntityTooLarge, code: "body_too_large",
		message: fmt.Sprintf("the body is larger than %d bytes (api.max_body_bytes); nothing of it was taken", limit),
	}
}

func errNoRoute(r *http.Request) *refusal {
	return &refusal{status: http.StatusNotFound, code: "not_found", message: fmt.Sprintf("there is nothing at %.200q", r.URL.Path)}
}

func errMethod(r *http.Request) *refusal {
	return &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: fmt.Sprintf("%.20q is not possible at %.200q", r.Method, r.URL.Path)}
}

func errOff(what string) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, code: "off", message: what + " is off in this daemon"}
}
