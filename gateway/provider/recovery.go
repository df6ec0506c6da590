package provider

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"gatewayd/internal/mutation"
)

// call is one request on its way through as many attempts as it takes. What is tried after a failure, in this order:
//
//	form       a refusal of something in the request's form: once more without it, at most mendsMost times
//	interrupt  the caller has left: nothing more
//	shown      text was shown: it cannot be taken back, so the caller goes on from it
//	routing    with another model standing by: rate limit, billing and refusals at once, trouble on the way after one retry
//	key        refused: once more if reading it anew gives another one
//	overflow   and what the server will refuse again: nothing more
//	retries    waits that grow, or as long as the server says; the last one over new connections
type call struct {
	c       *client
	request Request
	name    string
	manner  manner
	lasting bool // the manner is true of the server and not only of this request
	body    []byte
	show    *screen
	standby bool

	attempts int // requests that went out
	tries    int // of them, those whose failure counts against the retries
	mends    int
	slow     int  // first tokens that did not come in time; each doubles the next budget
	rekeyed  bool // the key was read anew
	told     bool // that pictures are left out
	spent    Usage
	key      string
}

// begin gives the request's bytes, asking the server for a model's name where none is set.
func (c *client) begin(ctx context.Context, request Request, show *screen, standby bool) (*call, *Error) {
	if c.baseErr != nil {
		return nil, &Error{Class: FormatError, Message: "model.base_url is no usable address: " + c.baseErr.Error(), Remedy: "write it like http://127.0.0.1:11434/v1", Err: c.baseErr}
	}
	name, failed := c.modelName(ctx)
	if failed != nil {
		return nil, failed
	}
	if request.Effort == "" {
		request.Effort = c.opts.Effort
	}
	k := &call{c: c, request: request, name: name, show: show, standby: standby, lasting: true}
	c.mu.Lock()
	k.manner, k.key = c.manner, c.key
	c.mu.Unlock()
	var err error
	if k.body, err = c.dialect.encode(name, request, k.manner); err != nil {
		return nil, &Error{Class: FormatError, Message: err.Error(), Err: err}
	}
	k.tellBlind()
	return k, nil
}

// once is one attempt: past the breaker, through the gate, onto the wire. The breaker is asked on both sides of the gate: who waited there while
// it opened does not try a server that hangs.
func (k *call) once(ctx context.Context) (Response, *Error) {
	if refused := k.c.breaker.refuses(); refused != nil {
		return Response{}, k.refused(refused)
	}
	permit, err := k.enter(ctx)
	if err != nil {
		return Response{}, interrupted(ctx, Response{})
	}
	defer permit.Leave()
	probe, refused := k.c.breaker.admit()
	if refused != nil && !mutation.On("waiting-calls-do-not-see-the-breaker") {
		return Response{}, k.refused(refused)
	}
	k.attempts++
	k.c.ledger.called()
	response, failed := k.c.attempt(ctx, k)
	k.settle(probe, failed)
	if failed != nil {
		k.c.ledger.note(failed, k.attempts)
		k.hold(failed)
	}
	return response, failed
}

// refused notes what the breaker said.
func (k *call) refused(refused *Error) *Error {
	k.c.ledger.note(refused, k.attempts)
	return refused
}

type freePermit struct{}

func (freePermit) Leave() {}

// enter waits at the gate, telling the caller where it stands.
func (k *call) enter(ctx context.Context) (Permit, error) {
	if k.c.opts.Gate == nil {
		return freePermit{}, nil
	}
	return k.c.opts.Gate.Enter(ctx, k.request.Caller, newTeller(k.show.sink).place)
}

// hold tells everybody who uses this key what the server said about it.
func (k *call) hold(failed *Error) {
	if k.c.opts.Gate != nil && failed.Class == RateLimit && failed.RetryAfter > 0 {
		k.c.opts.Gate.Hold(time.Now().Add(min(failed.RetryAfter, retryAfterCap)))
	}
}

// answered keeps what the call taught us.
func (k *call) answered(response Response) Response {
	if k.mends > 0 && k.lasting {
		k.c.mu.Lock()
		k.c.manner, k.c.refusedAt = k.c.manner.join(k.manner), time.Now()
		k.c.mu.Unlock()
		k.c.remember()
	}
	response.Provider = k.c.opts.Provider
	response.Usage = response.Usage.plus(k.spent)
	return response
}

func (k *call) ended(failed *Error) *Error {
	failed.Attempts = k.attempts
	failed.Partial.Provider = k.c.opts.Provider
	failed.Partial.Usage = failed.Partial.Usage.plus(k.spent)
	return failed
}

// recover decides what follows a failure: nil for another attempt, else the error that ends the call.
func (k *call) recover(ctx context.Context, failed *Error) *Error {
	if failed.Class == Interrupted || failed.Class == Breaker {
		return failed
	}
	if !k.show.text && k.mend(failed) {
		k.again(failed)
		return nil
	}
	k.c.learn(failed, len(k.body)/bytesPerToken)
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx, failed.Partial)
	case k.show.text && !mutation.On("shown-text-is-asked-for-again"), k.standby && k.handOver(failed):
		return failed
	case failed.Class == Auth:
		if !k.rekey() {
			return failed
		}
		k.again(failed)
		return nil
	}
	k.tries++
	if !retryable(failed, k.tries, k.c.opts.MaxRetries) {
		return failed
	}
	if errors.Is(failed, errFirstToken) {
		k.slow++
	}
	if !k.backOff(ctx, failed) {
		return interrupted(ctx, failed.Partial)
	}
	if k.tries == k.c.opts.MaxRetries && onTheWay(failed) {
		k.c.connect()
	}
	k.again(failed)
	return nil
}

// settle tells the breaker how an admitted call ended, and the log when it opens, stays open behind its probe, and closes.
func (k *call) settle(probe bool, failed *Error) {
	b := &k.c.breaker
	was := b.open()
	b.settle(probe, failed)
	switch is := b.open(); {
	case is && (!was || probe):
		k.c.opts.Log.Warn("model server is left alone, it went silent", "breaker", b.String())
	case was && !is:
		k.c.opts.Log.Info("model server answers again", "breaker", b.String())
	}
}

// again prepares the next attempt: what this one cost is not forgotten, what it showed is not shown twice.
func (k *call) again(failed *Error) {
	k.spent = k.spent.plus(failed.Partial.Usage)
	k.show.again()
}

// mend writes the request in a form that the server takes. It reports false when that would send the same bytes again.
func (k *call) mend(failed *Error) bool {
	next, what, passing := mended(k.manner, failed)
	if len(what) == 0 || k.mends >= mendsMost {
		return false
	}
	fresh, err := k.c.dialect.encode(k.name, k.request, next)
	if err != nil || bytes.Equal(fresh, k.body) && !mutation.On("mend-sends-the-same-again") {
		return false
	}
	k.manner, k.body, k.lasting = next, fresh, k.lasting && !passing
	k.tellBlind()
	k.mends++
	k.c.ledger.repaired()
	k.c.opts.Log.Info("model request refused in this form, asking again", "form", strings.Join(what, ", "), "status", failed.Status, "reason", failed.Message)
	return true
}

// tellBlind tells a person who shows a picture that the model does not get it.
func (k *call) tellBlind() {
	n := len(k.request.Messages)
	if k.told || n == 0 || len(k.request.Messages[n-1].Images) == 0 || !k.manner.not[formImages] {
		return
	}
	k.told = true
	emit(k.show.sink, Delta{Notice: "the model " + k.name + " does not take this image; it is told only that there is one"})
}

// handOver reports whether the model that stands by should answer now.
func (k *call) handOver(failed *Error) bool {
	switch failed.Class {
	case RateLimit, UpstreamLimit, Billing:
		return true
	case Transport, Timeout:
		return k.tries >= 1
	}
	return false
}

// onTheWay: the failure may be the connection's.
func onTheWay(failed *Error) bool {
	return slices.Contains([]Class{Transport, Timeout, ServerError}, failed.Class)
}

// rekey reads the key anew, once in a call. A key that did not change is not tried again.
func (k *call) rekey() bool {
	if k.rekeyed || k.c.opts.Refresh == nil {
		return false
	}
	k.rekeyed = true
	key := strings.TrimSpace(k.c.opts.Refresh())
	if key == "" || key == k.key {
		return false
	}
	k.key = key
	k.c.mu.Lock()
	k.c.key = key
	k.c.mu.Unlock()
	return true
}

// backOff waits before the next attempt and returns false when the caller went away.
func (k *call) backOff(ctx context.Context, failed *Error) bool {
	wait := delay(failed, k.tries, k.c.jitter())
	k.c.opts.Log.Info("model call failed, trying again", "class", failed.Class, "status", failed.Status, "attempt", k.attempts, "wait", wait, "reason", failed.Message)
	if wait >= announceWait {
		emit(k.show.sink, Delta{Notice: "the model server answered " + string(failed.Class) + ": " + failed.Message + "; trying again in " + wait.Round(time.Second).String()})
	}
	return k.c.pause(ctx, wait, k.show.sink)
}

func (u Usage) plus(other Usage) Usage {
	return Usage{
		Prompt: u.Prompt + other.Prompt, Completion: u.Completion + other.Completion, Cached: u.Cached + other.Cached,
		CacheWrite: u.CacheWrite + other.CacheWrite, Reasoning: u.Reasoning + other.Reasoning,
	}
}
