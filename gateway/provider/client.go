package provider

import (
	"context"
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

// Options is one server. BaseURL and Key are taken as they are; times left zero take the defaults.
type Options struct {
	BaseURL       string // up to and with /v1; a query is kept
	API           string // openai or anthropic; empty: by the host
	Name          string // empty: the first model the server lists
	Key           string // empty sends none
	Provider      string // for people; default is the host
	Origin        string // how this server was chosen, for people
	ContextLength int    // tokens; 0 unknown
	Effort        string // of requests that say none of their own: minimal, low, medium, high
	CacheTTL      string // prompt cache of the Messages API: 5m, 1h, off; empty is 5m

	RequestTimeout time.Duration // one attempt, from the call to the last byte
	FirstToken     time.Duration // until something meaningful arrives; 0: by the place of the server, the prompt and the measured rate
	Stall          time.Duration // between two meaningful chunks; comments do not count
	Slots          string        // whether llama.cpp's slots are looked at meanwhile: SlotsAuto (or empty), SlotsOn, SlotsOff
	MaxRetries     int           // attempts after the first; 0 is none
	BreakerAfter   int           // silent calls in a row that open the breaker; 0 is DefaultBreakerAfter, below 0 never

	Gate     Gate          // nil: nobody waits for anybody
	Learned  Learned       // what an earlier process learned of this server
	Remember func(Learned) // told when that changes; it must not block for long
	Refresh  func() string // reads the key anew after the server refused it; nil: it does not change

	Transport http.RoundTripper // nil: a pool of its own
	Log       *slog.Logger      // nil: discarded
}

// Learned is what a server taught us and what is worth keeping over a restart. The zero value is nothing.
type Learned struct {
	Window  int     `json:"window,omitempty"`  // tokens that fit into it, as its own refusal said
	Prefill float64 `json:"prefill,omitempty"` // tokens of prompt that it reads in a second, as measured

	Refuses   []string  `json:"refuses,omitempty"`    // parameters and forms that it refused by name
	Keywords  []string  `json:"keywords,omitempty"`   // of tool schemas, likewise
	MaxOutput int       `json:"max_output,omitempty"` // tokens of one answer, as its refusal said
	RefusedAt time.Time `json:"refused_at,omitzero"`  // when the newest of them was; see refusalAge
}

// client is one server. Safe for concurrent use.
type client struct {
	opts    Options
	base    *url.URL
	baseErr error
	dialect dialect
	http    atomic.Pointer[http.Client]
	breaker breaker
	ledger  ledger

	slotless atomic.Bool // it has no slots to tell of
	mute     atomic.Bool // it thought the last time, and nothing of it was to be seen
	pace     pace
	jitter   func() float64
	pause    func(context.Context, time.Duration, func(Delta)) bool

	mu     sync.Mutex
	name   string
	key    string
	window window
	manner manner

	refusedAt time.Time // when the manner was last added to
}

// New gives a client for one server. Nothing is contacted before the first call; a base URL that is none fails each call.
func New(opts Options) Model { return newClient(opts) }

func newClient(opts Options) *client {
	opts.Key = strings.TrimSpace(opts.Key)
	opts.RequestTimeout = orDefault(opts.RequestTimeout, DefaultRequestTimeout)
	opts.Stall = orDefault(opts.Stall, DefaultStall)
	if opts.BreakerAfter == 0 {
		opts.BreakerAfter = DefaultBreakerAfter
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	base, err := parseBase(opts.BaseURL)
	host := ""
	if err == nil {
		host = base.Hostname()
		if opts.Provider == "" {
			opts.Provider = base.Host
		}
	}
	c := &client{
		opts: opts, base: base, baseErr: err, dialect: dialectOf(opts, host), name: opts.Name, key: opts.Key, jitter: rand.Float64, pause: pause,
		breaker: breaker{after: opts.BreakerAfter},
	}
	if _, ok := c.dialect.(messagesAPI); ok && err == nil && strings.Trim(base.Path, "/") == "" {
		c.base = base.JoinPath("v1")
	}
	c.window.set(opts.ContextLength, windowConfigured)
	c.window.learn(opts.Learned.Window)
	c.pace.rate = opts.Learned.Prefill
	c.manner, c.refusedAt = mannerOf(opts.Learned, time.Now())
	c.connect()
	return c
}

// connect makes a pool of connections, leaving an earlier one behind: a connection that hangs in it hangs there alone.
func (c *client) connect() {
	transport := c.opts.Transport
	if transport == nil {
		transport = newTransport()
	}
	// A redirect of a POST would lose its body or show the key to another host.
	fresh := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if old := c.http.Swap(fresh); old != nil {
		old.CloseIdleConnections()
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
	d := Description{Provider: c.opts.Provider, API: APIOpenAI, Origin: c.opts.Origin, Timeouts: c.timeouts()}
	if _, ok := c.dialect.(messagesAPI); ok {
		d.API = APIAnthropic
	}
	c.mu.Lock()
	d.Name = c.name
	d.ContextLength, d.WindowFrom = c.window.get()
	c.mu.Unlock()
	if c.baseErr == nil {
		d.BaseURL = publicURL(c.base)
	}
	return d
}

// Reset lets the server be tried at once, whatever it did before.
func (c *client) Reset() { c.breaker.reset() }

// Stats gives what was counted so far.
func (c *client) Stats() []Stats {
	s := Stats{Provider: c.opts.Provider, Breaker: c.breaker.String(), Open: c.breaker.open(), PrefillRate: c.pace.get()}
	c.ledger.fill(&s)
	c.mu.Lock()
	s.Model, s.Refuses = c.name, c.manner.refuses()
	c.mu.Unlock()
	if c.opts.Gate != nil {
		s.Gate = c.opts.Gate.Stats()
	}
	return []Stats{s}
}

// Complete makes the call, again and again where that may help.
func (c *client) Complete(ctx context.Context, request Request, sink func(Delta)) (Response, error) {
	response, err := c.route(ctx, request, &screen{sink: sink}, false)
	if err != nil {
		return Response{}, err
	}
	return response, nil
}

// route is Complete for who knows whether another model stands by: then this one gives up sooner.
func (c *client) route(ctx context.Context, request Request, show *screen, standby bool) (Response, *Error) {
	k, err := c.begin(ctx, request, show, standby)
	if err != nil {
		return Response{}, err
	}
	for {
		response, failed := k.once(ctx)
		if failed == nil {
			return k.answered(response), nil
		}
		if end := k.recover(ctx, failed); end != nil {
			return Response{}, k.ended(end)
		}
	}
}

// screen is what the caller has seen. Reasoning that an earlier attempt showed is not shown a second time, text never is.
type screen struct {
	mu              sync.Mutex // a sign of life may come beside the stream
	sink            func(Delta)
	text, reasoning bool
	mute            bool
}

func (s *screen) show(delta Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute {
		delta.Reasoning = ""
	}
	s.text = s.text || delta.Text != ""
	s.reasoning = s.reasoning || delta.Reasoning != ""
	emit(s.sink, delta)
}

// sign shows what is no part of an answer.
func (s *screen) sign(delta Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	emit(s.sink, delta)
}

func (s *screen) again() { s.mute = s.mute || s.reasoning }

func orDefault(value, fallback time.Duration) time.Duration {
	if value <= 0 {
		return fallback
	}
	return value
}
