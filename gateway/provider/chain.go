package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"gatewayd/internal/mutation"
)

// How long a model is not asked first after its provider refused it for the rate: a minute, doubled each time up to four hours, or as long as
// the provider said. An answer forgets it.
const (
	benchFirst = time.Minute
	benchMost  = 4 * time.Hour
)

// Chain gives a model that asks the first of the list and, when that one cannot answer, the next. Each call begins at the first again, unless
// its provider's rate limit has benched it. A switch is told in a Notice, and Response.Provider says who answered. Text that was shown ends the
// trying here too: the caller goes on from it. Descriptions are the first one's. Chain of one model is that model.
func Chain(models ...Model) Model {
	if len(models) == 1 {
		return models[0]
	}
	c := &chain{}
	for _, model := range models {
		c.links = append(c.links, &link{model: model})
	}
	return c
}

type chain struct{ links []*link }

// link is one model of a chain with what is held against it. Safe for concurrent use.
type link struct {
	model Model

	mu    sync.Mutex
	step  time.Duration
	until time.Time
}

// router is a model that gives up sooner when another one stands by.
type router interface {
	route(ctx context.Context, request Request, show *screen, standby bool) (Response, *Error)
}

func (c *chain) Describe() Description {
	if len(c.links) == 0 {
		return Offline().Describe()
	}
	d := c.links[0].model.Describe()
	for _, l := range c.links[1:] {
		d.Fallbacks = append(d.Fallbacks, l.title())
	}
	return d
}

func (c *chain) Reset() {
	for _, l := range c.links {
		Reset(l.model)
		l.answered()
	}
}

func (c *chain) Stats() (all []Stats) {
	for _, l := range c.links {
		for _, s := range StatsOf(l.model) {
			s.Benched = l.benched()
			all = append(all, s)
		}
	}
	return all
}

// Complete asks one model after the other. The error of the last one names them all.
func (c *chain) Complete(ctx context.Context, request Request, sink func(Delta)) (Response, error) {
	show := &screen{sink: sink}
	order := c.order()
	attempts, failures, spent := 0, []string(nil), Usage{}
	for i, l := range order {
		if i > 0 {
			emit(sink, Delta{Notice: fmt.Sprintf("%s cannot answer now; %s does", order[i-1].title(), l.title())})
			show.again()
		}
		response, failed := l.ask(ctx, request, show, i < len(order)-1)
		if failed == nil {
			l.answered()
			response.Provider = cmp.Or(response.Provider, l.model.Describe().Provider)
			response.Usage = response.Usage.plus(spent)
			if l != c.links[0] {
				response.Window = l.model.Describe().ContextLength
			}
			return response, nil
		}
		l.bench(failed)
		attempts += failed.Attempts
		failures = append(failures, fmt.Sprintf("%s: %s", l.title(), failed.Message))
		if i == len(order)-1 || show.text || !fallsBack(failed, request, order[i+1].model) {
			return Response{}, total(failed, attempts, failures, spent)
		}
		spent = spent.plus(failed.Partial.Usage)
	}
	return Response{}, &Error{Class: ModelNotFound, Message: "no model is configured", Remedy: "set model.base_url"}
}

// total is the last failure with all that came before it.
func total(failed *Error, attempts int, failures []string, spent Usage) *Error {
	failed.Attempts = attempts
	failed.Partial.Usage = failed.Partial.Usage.plus(spent)
	if len(failures) > 1 {
		failed.Message = shorten(strings.Join(failures, "; "))
	}
	return failed
}

// fallsBack says whether another model may do better: what is wrong with the request is wrong with it everywhere, and a window that is known
// to be too small needs no call.
func fallsBack(failed *Error, request Request, next Model) bool {
	switch failed.Class {
	case Interrupted, FormatError, PayloadTooLarge, ContextOverflow:
		return false
	}
	window := next.Describe().ContextLength
	return window == 0 || request.size()/bytesPerToken < window
}

// size is about the bytes of a request.
func (r Request) size() int {
	n := len(r.System)
	for _, m := range r.Messages {
		n += len(m.Content) + len(m.Raw) + len(m.Images)*ImageTokens*bytesPerToken
		for _, call := range m.ToolCalls {
			n += len(call.Arguments) + len(call.Name)
		}
	}
	for _, tool := range r.Tools {
		n += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
	}
	return n
}

// order is who is asked, one after the other: those that are benched last, the one that may come back first before the others.
func (c *chain) order() []*link {
	var free, benched []*link
	now := time.Now()
	for _, l := range c.links {
		if l.benched().After(now) {
			benched = append(benched, l)
		} else {
			free = append(free, l)
		}
	}
	if len(free) == 0 { // all are: who is back first is asked
		best := benched[0]
		for _, l := range benched {
			if l.benched().Before(best.benched()) {
				best = l
			}
		}
		return []*link{best}
	}
	return free
}

func (l *link) ask(ctx context.Context, request Request, show *screen, standby bool) (Response, *Error) {
	if r, ok := l.model.(router); ok {
		return r.route(ctx, request, show, standby)
	}
	response, err := l.model.Complete(ctx, request, show.show)
	if err == nil {
		return response, nil
	}
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		failed = &Error{Class: Unknown, Message: err.Error(), Err: err}
	}
	return response, failed
}

func (l *link) title() string {
	d := l.model.Describe()
	return strings.TrimSpace(cmp.Or(d.Name, "the model") + " at " + d.Provider)
}

func (l *link) benched() time.Time { l.mu.Lock(); defer l.mu.Unlock(); return l.until }

func (l *link) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step, l.until = 0, time.Time{}
}

// bench keeps a model back whose provider refuses it for the rate.
func (l *link) bench(failed *Error) {
	if failed.Class != RateLimit && failed.Class != UpstreamLimit || mutation.On("nobody-is-benched") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step = min(max(benchFirst, 2*l.step), benchMost)
	l.until = time.Now().Add(min(max(l.step, failed.RetryAfter), benchMost))
}
