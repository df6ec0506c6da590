package provider

import (
	"fmt"
	"sync"
	"time"
)

// bytesPerToken is the rule of thumb for prompts that nobody has counted.
const bytesPerToken = 4

// How the time for a first token follows from the measured rate: three times what it should take and a start on top, because a rate is a
// mean and other people use the machine too. A prompt of fewer fresh tokens says more about the network than about the rate.
const (
	prefillSlack = 3
	prefillStart = 30 * time.Second
	prefillLeast = 1000
	prefillShare = 0.3 // of a new measurement in the mean
)

// pace is how fast a server reads prompts. Safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	rate float64 // tokens a second; 0 unknown
	kept float64 // as it was last remembered
}

func (p *pace) get() float64 { p.mu.Lock(); defer p.mu.Unlock(); return p.rate }

// observe takes a measurement in and reports whether the rate is worth remembering anew.
func (p *pace) observe(fresh int64, took time.Duration) bool {
	if fresh < prefillLeast || took <= 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := float64(fresh) / took.Seconds()
	if p.rate == 0 {
		p.rate = now
	} else {
		p.rate += prefillShare * (now - p.rate)
	}
	if p.kept != 0 && p.rate > p.kept*0.8 && p.rate < p.kept*1.25 {
		return false
	}
	p.kept = p.rate
	return true
}

// firstToken is the budget until the first meaningful chunk, and it doubles after each time it was too short: a server that needs 200 s for
// its prefill never finishes inside 180 s, however often it is asked. A configured budget is what was configured; an automatic one follows
// the place of the server, the length of the prompt and the measured rate.
func (c *client) firstToken(tokens, slow int) time.Duration {
	budget := c.opts.FirstToken
	if budget <= 0 {
		budget = c.automatic(tokens)
	}
	return min(budget<<min(slow, 8), c.opts.RequestTimeout)
}

// thinkingFirst is the least automatic budget where a model may think before its first token and show nothing of it: minutes are usual then.
const thinkingFirst = 10 * time.Minute

// firstToken is the client's budget for this call.
func (k *call) firstToken() time.Duration {
	budget := k.c.firstToken(len(k.body)/bytesPerToken, k.slow)
	told := k.request.Effort == "medium" || k.request.Effort == "high"
	if k.c.opts.FirstToken > 0 || !told && !k.c.mute.Load() {
		return budget
	}
	return min(max(budget, thinkingFirst<<min(k.slow, 8)), k.c.opts.RequestTimeout)
}

func (c *client) automatic(tokens int) time.Duration {
	budget := c.place()
	switch {
	case tokens > 100_000:
		budget += budget * 2 / 3
	case tokens > 50_000:
		budget += budget / 3
	}
	if rate := c.pace.get(); rate > 0 {
		seconds := prefillSlack * float64(tokens) / rate
		budget = max(budget, prefillStart+time.Duration(min(seconds, 1e6)*float64(time.Second)))
	}
	return budget
}

// place is the budget for a short prompt.
func (c *client) place() time.Duration {
	if c.baseErr == nil && isLocal(c.base.Hostname()) {
		return localFirstToken
	}
	return DefaultFirstToken
}

// timeouts says in one line which bounds are in force and where each comes from.
func (c *client) timeouts() string {
	first := c.opts.FirstToken.String() + " (configured)"
	if c.opts.FirstToken <= 0 {
		why := "a server elsewhere"
		if c.place() == localFirstToken {
			why = "a server nearby"
		}
		first = fmt.Sprintf("%s (%s), more from 50,000 tokens of prompt on and at least %s where it thinks unseen", c.place(), why, thinkingFirst)
		if rate := c.pace.get(); rate > 0 {
			first += fmt.Sprintf(", and at least %d × the prompt at the measured %.0f tokens a second", prefillSlack, rate)
		}
	}
	return fmt.Sprintf("first token %s, doubled after each silence; silence in an answer %s; one request in all %s; %d retries",
		first, c.opts.Stall, c.opts.RequestTimeout, c.opts.MaxRetries)
}

// measured takes in how long an answer's first token took.
func (c *client) measured(usage Usage, first time.Duration) {
	if c.pace.observe(usage.Prompt-usage.Cached, first) {
		c.remember()
	}
}

// Where the length of a window comes from.
const (
	windowConfigured = "configured"
	windowListed     = "listed by the server"
	windowRefused    = "the server's own refusal"
	windowGuessed    = "stepped down after a refusal without a number"
)

// windowSteps are tried when a server refuses a prompt and does not say how long one may be.
var windowSteps = []int{256_000, 128_000, 64_000, 32_000, 16_000, 8_000}

// window is how many tokens fit into a request. What the server itself refused counts more than what anybody said before.
type window struct {
	known       int
	from        string
	learned     int
	learnedFrom string
}

func (w *window) set(tokens int, from string) {
	if tokens > 0 {
		w.known, w.from = tokens, from
	}
}

func (w *window) learn(tokens int) {
	if tokens > 0 {
		w.learned, w.learnedFrom = tokens, windowRefused
	}
}

// stepDown takes the next smaller step, below the prompt that was refused too.
func (w *window) stepDown(prompt int) {
	now, _ := w.get()
	for _, step := range windowSteps {
		if (now == 0 || step < now) && (prompt == 0 || step < prompt*2) {
			w.learned, w.learnedFrom = step, windowGuessed
			return
		}
	}
}

func (w *window) get() (int, string) {
	if w.learned > 0 && (w.known == 0 || w.learned < w.known) {
		return w.learned, w.learnedFrom
	}
	return w.known, w.from
}

// learn takes a window out of an overflow.
func (c *client) learn(failed *Error, prompt int) {
	if failed.Class != ContextOverflow {
		return
	}
	c.mu.Lock()
	before := c.window.learned
	if failed.Limit > 0 {
		c.window.learn(failed.Limit)
	} else {
		c.window.stepDown(prompt)
	}
	changed := before != c.window.learned
	c.mu.Unlock()
	if changed && failed.Limit > 0 {
		c.remember()
	}
}

// remember hands on what is worth keeping. A guess is not.
func (c *client) remember() {
	if c.opts.Remember == nil {
		return
	}
	learned := Learned{Prefill: c.pace.get()}
	c.mu.Lock()
	if c.window.learnedFrom == windowRefused {
		learned.Window = c.window.learned
	}
	c.manner.into(&learned, c.refusedAt)
	c.mu.Unlock()
	c.opts.Remember(learned)
}
