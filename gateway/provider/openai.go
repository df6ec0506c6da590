package provider

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Options. A first token may take minutes when a long prompt is read on a small machine; half an hour is the longest
// that a whole answer of a reasoning model was seen to need.
const (
	DefaultRequestTimeout = 1800 * time.Second
	DefaultFirstToken     = 180 * time.Second
	DefaultStall          = 180 * time.Second
	DefaultRetries        = 3
	localFirstToken       = 900 * time.Second // unless set: prefill on a workstation is slow, and nobody pays for it
	finishGrace           = 5 * time.Second   // after finish_reason: how long to wait for usage and [DONE]
	connectTimeout        = 10 * time.Second
)

// Options is one OpenAI-compatible server. BaseURL and Key are taken as they are; times left zero take the defaults.
type Options struct {
	BaseURL       string // up to and with /v1; a query is kept
	Name          string // empty: the first model the server lists
	Key           string // bearer token; empty sends none
	Provider      string // for people; default is the host
	Origin        string // how this server was chosen, for people
	ContextLength int    // tokens; 0 unknown

	RequestTimeout time.Duration // one attempt, from the call to the last byte
	FirstToken     time.Duration // until something meaningful arrives
	Stall          time.Duration // between two meaningful chunks; comments do not count
	MaxRetries     int           // attempts after the first; 0 is none

	API          string            // openai or anthropic; empty: by the host
	Effort       string            // reasoning effort of requests that ask for none of their own
	CacheTTL     string            // prompt cache of the Messages API: 5m, 1h, off; empty is 5m
	BreakerAfter int               // silent calls in a row that open the breaker; 0 is DefaultBreakerAfter, below 0 never
	Gate         Gate              // nil: nobody waits for anybody
	Learned      Learned           // what an earlier process learned of this server
	Remember     func(Learned)     // told when that changes; it must not block for long
	Refresh      func() string     // reads the key anew after the server refused it; nil: it does not change
	Transport    http.RoundTripper // nil: a pool of its own
	Log          *slog.Logger      // nil: discarded
}

// Learned is what a server taught us and what is worth keeping over a restart. The zero value is nothing.
type Learned struct {
	Window  int     `json:"window,omitempty"`  // tokens that fit into it, as its own refusal said
	Prefill float64 `json:"prefill,omitempty"` // tokens of prompt that it reads in a second, as measured
}

// client is an OpenAI-compatible server. Safe for concurrent use.
type client struct {
	opts    Options
	base    *url.URL
	baseErr error
	http    *http.Client
	breaker breaker
	learned atomic.Int64 // window in tokens, told by an overflow error
	jitter  func() float64
	pause   func(context.Context, time.Duration, func(Delta)) bool

	mu   sync.Mutex
	name string
}

// NewOpenAI gives a client for one server. Nothing is contacted before the first call; a base URL that is none fails each call.
func NewOpenAI(opts Options) Model {
	opts.Key = strings.TrimSpace(opts.Key)
	opts.RequestTimeout = orDefault(opts.RequestTimeout, DefaultRequestTimeout)
	opts.Stall = orDefault(opts.Stall, DefaultStall)
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	base, err := parseBase(opts.BaseURL)
	if err == nil && opts.FirstToken <= 0 && isLocal(base.Hostname()) {
		opts.FirstToken = localFirstToken
	}
	opts.FirstToken = orDefault(opts.FirstToken, DefaultFirstToken)
	if opts.Provider == "" && err == nil {
		opts.Provider = base.Host
	}
	if opts.Transport == nil {
		opts.Transport = newTransport()
	}
	return &client{
		opts: opts, base: base, baseErr: err, name: opts.Name, jitter: rand.Float64, pause: pause,
		// A redirect of a POST would lose its body or show the key to another host.
		http: &http.Client{Transport: opts.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: connectTimeout,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 1 << 20,
	}
}

func (c *client) Describe() Description {
	d := Description{Provider: c.opts.Provider, ContextLength: c.opts.ContextLength, Origin: c.opts.Origin}
	c.mu.Lock()
	d.Name = c.name
	c.mu.Unlock()
	if learned := int(c.learned.Load()); learned > 0 && (d.ContextLength == 0 || learned < d.ContextLength) {
		d.ContextLength = learned
	}
	if c.baseErr == nil {
		d.BaseURL = publicURL(c.base)
	}
	return d
}

// Complete makes the call, again and again where that may help. Text that was shown ends the trying: it cannot be taken back.
func (c *client) Complete(ctx context.Context, request Request, sink func(Delta)) (Response, error) {
	body, err := c.prepare(ctx, request)
	if err != nil {
		return Response{}, err
	}
	show := &screen{sink: sink}
	slow := 0 // first tokens that did not come in time; each doubles the next budget
	for attempt := 1; ; attempt++ {
		probe, refused := c.breaker.admit()
		if refused != nil {
			refused.Attempts = attempt - 1
			return Response{}, refused
		}
		response, err := c.attempt(ctx, body, show, c.firstToken(len(body), slow))
		c.breaker.settle(probe, err)
		if err == nil {
			return response, nil
		}
		c.learn(err)
		err.Attempts = attempt
		if errors.Is(err, errFirstToken) {
			slow++
		}
		if show.text || !retryable(err, attempt, c.opts.MaxRetries) {
			return Response{}, err
		}
		if !c.backOff(ctx, err, attempt, show) {
			stopped := interrupted(ctx, err.Partial)
			stopped.Attempts = attempt
			return Response{}, stopped
		}
		show.again()
	}
}

// prepare gives the request's bytes, asking the server for a model's name where none is set.
func (c *client) prepare(ctx context.Context, request Request) ([]byte, error) {
	if c.baseErr != nil {
		return nil, &Error{Class: FormatError, Message: "model.base_url is no usable address: " + c.baseErr.Error(), Remedy: "write it like http://127.0.0.1:11434/v1", Err: c.baseErr}
	}
	name, failed := c.modelName(ctx)
	if failed != nil {
		return nil, failed
	}
	body, err := encode(name, request)
	if err != nil {
		return nil, &Error{Class: FormatError, Message: err.Error(), Err: err}
	}
	return body, nil
}

// firstToken is the budget until the first meaningful chunk. It grows with the prompt, counted at four bytes a token, and doubles
// after each time it was too short: a server that needs 200 s for its prefill never finishes inside 180 s, however often it is asked.
func (c *client) firstToken(bodyBytes, slow int) time.Duration {
	budget := c.opts.FirstToken
	switch tokens := bodyBytes / 4; {
	case tokens > 100_000:
		budget += budget * 2 / 3
	case tokens > 50_000:
		budget += budget / 3
	}
	return min(budget<<min(slow, 8), c.opts.RequestTimeout)
}

// backOff waits before the next attempt and returns false when the caller went away.
func (c *client) backOff(ctx context.Context, err *Error, attempt int, show *screen) bool {
	wait := delay(err, attempt, c.jitter())
	c.opts.Log.Info("model call failed, trying again", "class", err.Class, "status", err.Status, "attempt", attempt, "wait", wait, "reason", err.Message)
	if wait >= announceWait {
		emit(show.sink, Delta{Notice: "the model server answered " + string(err.Class) + ": " + err.Message + "; trying again in " + wait.Round(time.Second).String()})
	}
	return c.pause(ctx, wait, show.sink)
}

func (c *client) learn(err *Error) {
	if err.Class == ContextOverflow && err.Limit > 0 {
		c.learned.Store(int64(err.Limit))
	}
}

// screen is what the caller has seen. Reasoning that an earlier attempt showed is not shown a second time, text never is.
type screen struct {
	sink            func(Delta)
	text, reasoning bool
	mute            bool
}

func (s *screen) show(delta Delta) {
	if s.mute {
		delta.Reasoning = ""
	}
	s.text = s.text || delta.Text != ""
	s.reasoning = s.reasoning || delta.Reasoning != ""
	emit(s.sink, delta)
}

func (s *screen) again() { s.mute = s.mute || s.reasoning }

func orDefault(value, fallback time.Duration) time.Duration {
	if value <= 0 {
		return fallback
	}
	return value
}
