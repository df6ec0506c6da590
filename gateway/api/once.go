package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/gateway/keys"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// Headers of a request that must not be done twice.
const (
	headerOnce     = "Idempotency-Key"
	headerReplayed = "Idempotency-Replayed"

	maxOnceKey  = 255
	onceTimeout = 30 * time.Second // of the writes that remember how a request ended, which no client may cut short
)

// Once remembers requests that must not be done twice: sessiondb.Store.
type Once interface {
	ClaimOnce(ctx context.Context, o sessiondb.Once) (held sessiondb.Once, mine bool, err error)
	SettleOnce(ctx context.Context, o sessiondb.Once) error
	DropOnce(ctx context.Context, o sessiondb.Once) error
	Said(ctx context.Context, uid string) (sessiondb.Said, bool, error)
}

// recallable are the routes whose handlers find out by the uid of their message what became of a request whose process ended in its
// middle (begunBefore). Of any other such request it is not known, and that is the answer.
var recallable = map[string]bool{
	"/v1/chat/completions":             true,
	"/api/sessions/{session}/messages": true,
	"/v1/responses":                    true,
	"/v1/runs":                         true,
	"/api/boards/{board}/tasks":        true, // the board itself remembers the key beside the card
}

// once does a request that carries an Idempotency-Key once. The same request again is answered with what the first was answered
// with, and hears it along while it runs; another request under the same key is refused. A refusal before anything was done is not
// remembered. Keys are those of one holder, method and path.
func (s *server) once(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, asked := r.Header[headerOnce]; !asked || s.Once == nil || r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		o, r, err := s.readOnce(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		f, first := s.flights.board(flightKey{o.Scope, o.Key, o.Request}, w)
		if !first {
			s.hear(w, r, f)
			return
		}
		defer s.flights.land(f)
		s.fly(f, w, r, o, next)
	})
}

// readOnce reads the key and the whole body, whose digest tells one request from another.
func (s *server) readOnce(r *http.Request) (sessiondb.Once, *http.Request, error) {
	key, err := onceKey(r.Header)
	if err != nil {
		return sessiondb.Once{}, r, err
	}
	body, err := s.onceBody(r)
	if err != nil {
		return sessiondb.Once{}, r, err
	}
	again := *r
	again.Body = io.NopCloser(bytes.NewReader(body))
	again = *again.WithContext(context.WithValue(r.Context(), writerKey{}, nil)) // the body is here: nobody waits for it any more
	return sessiondb.Once{
		Scope: callerID(r.Context()) + " " + r.Method + " " + r.URL.Path, Key: key, Request: requestDigest(r, body), UID: sessiondb.NewUID(),
	}, &again, nil
}

func onceKey(h http.Header) (string, error) {
	values := h[headerOnce]
	key := values[0]
	if len(values) > 1 {
		return "", errField(headerOnce, "is there %d times", len(values))
	}
	if key == "" || len(key) > maxOnceKey || strings.IndexFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0 {
		return "", errField(headerOnce, "must be 1 to %d visible ASCII characters", maxOnceKey)
	}
	return key, nil
}

// onceBody reads a body of any type within the bound of JSON bodies.
func (s *server) onceBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > s.MaxBody {
		return nil, errTooLarge(s.MaxBody)
	}
	body := io.Reader(r.Body)
	if checkContentType(r.Header) != nil {
		body = s.patient(r, body) // a file may take longer to arrive than a text
	}
	return s.readAll(body)
}

// requestDigest names what is asked: what beside method and path decides what is done.
func requestDigest(r *http.Request, body []byte) string {
	h := sha256.New()
	for _, part := range []string{
		r.URL.Query().Encode(), r.Header.Get("Content-Type"), r.Header.Get(headerSession), r.Header.Get(aliasSession), r.Header.Get(headerKey),
	} {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// fly does the request, or answers with what is known of it. Whoever sends the same meanwhile hears what is written into f.
func (s *server) fly(f *flight, w http.ResponseWriter, r *http.Request, o sessiondb.Once, next http.Handler) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	f.gone = cancel
	defer f.end()
	held, mine, err := s.Once.ClaimOnce(r.Context(), o)
	pattern := chi.RouteContext(r.Context()).RoutePattern()
	switch {
	case err != nil:
		s.fail(f, r, err)
	case !mine && held.Request != o.Request && !mutation.On("replay-without-comparing-the-request"):
		s.fail(f, r, errOtherRequest())
	case !mine && held.Status != 0 && held.Kept:
		replay(f, held)
	case !mine && !recallable[pattern]:
		s.fail(f, r, errOnceUnknown(held))
	default:
		ctx = context.WithValue(ctx, onceStateKey{}, &onceState{flight: f, uid: held.UID, before: !mine})
		s.doOnce(f, r.WithContext(ctx), held, next)
	}
}

// doOnce does a claimed request and remembers its answer before it is told, a stream's after it. One that ends in a panic stays begun:
// what became of it is asked of the rows.
func (s *server) doOnce(f *flight, r *http.Request, o sessiondb.Once, next http.Handler) {
	whole := false
	defer func() {
		if !whole {
			f.abort()
		}
	}()
	next.ServeHTTP(f, r)
	whole = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), onceTimeout)
	defer cancel()
	var err error
	switch {
	case !f.drops():
		err = s.Once.SettleOnce(ctx, f.remembered(o))
	case !begunBefore(r.Context()): // of one that was, more may have been done than this process knows
		err = s.Once.DropOnce(ctx, o)
	}
	if err != nil {
		s.Log.Warn("answer under an Idempotency-Key not remembered", "path", r.URL.Path, "error", err)
	}
}

// replay answers with what is remembered.
func replay(w http.ResponseWriter, o sessiondb.Once) {
	var kept http.Header
	_ = json.Unmarshal([]byte(o.Headers), &kept)
	h := w.Header()
	for name, values := range kept {
		h[name] = values
	}
	h.Set(headerReplayed, "true")
	w.WriteHeader(o.Status)
	_, _ = io.WriteString(w, o.Body)
}

func errOtherRequest() *refusal {
	return &refusal{
		status: http.StatusConflict, code: "idempotency_key_conflict", param: headerOnce,
		message: headerOnce + ": another request was sent under this key; nothing was done. Send a new request under a new key",
	}
}

func errOnceUnknown(o sessiondb.Once) *refusal {
	what := "the daemon ended before it had answered"
	if o.Status != 0 {
		what = fmt.Sprintf("it was done and answered with %d, and its answer was too large to be kept", o.Status)
	}
	return &refusal{
		status: http.StatusConflict, code: "idempotency_unknown", param: headerOnce, noRetry: true,
		message: fmt.Sprintf("%s: the request of %s under this key was begun; %s. It was not done again: look at what it changed, then use a new key", headerOnce, o.CreatedAt.Format(time.RFC3339), what),
	}
}

// onceState is what a handler may know of its request's key.
type onceState struct {
	flight *flight
	uid    string
	before bool
}

type onceStateKey struct{}

func onceOf(ctx context.Context) *onceState {
	state, _ := ctx.Value(onceStateKey{}).(*onceState)
	return state
}

// onceUID is the uid that a row of this request has to have, so that the request can be found again in the rows after the end of the
// process in its middle; empty for a request without an Idempotency-Key. While the key is remembered it gives the same uid.
func onceUID(ctx context.Context) string {
	if state := onceOf(ctx); state != nil {
		return state.uid
	}
	return ""
}

// begunBefore reports that this request was begun under its key already, and that its process ended before it was answered, or that its
// answer was too large to be kept. The handler of a recallable route then asks by onceUID what became of it.
func begunBefore(ctx context.Context) bool {
	state := onceOf(ctx)
	return state != nil && state.before
}

// hasEffect says that something was done which a later refusal does not undo: the answer is remembered, whatever it is.
func hasEffect(ctx context.Context) {
	if state := onceOf(ctx); state != nil {
		state.flight.effect.Store(true)
	}
}

// notDone says that nothing was done, although the answer has begun.
func notDone(ctx context.Context, e *refusal) {
	if state := onceOf(ctx); state != nil && !e.did() {
		state.flight.nothing.Store(true)
	}
}

// callerID names the holder of the key that a request came with: Idempotency-Keys of one are nothing to another.
func callerID(ctx context.Context) string {
	caller, _ := keys.Who(ctx)
	return caller.Key.ID
}
