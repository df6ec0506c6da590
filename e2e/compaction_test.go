package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/internal/chamber"
	"gatewayd/internal/fakellm"
)

// Two programs fold what was said in their conversations, by a summary after each turn and at a person's word, on one
// store with others; one is killed in a turn or while its summary is written. Each question is live exactly once, what
// was found and answered is live or history, each request is what the rows give, and a fresh process goes on.
func TestCompactionPersists(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{chamber.WAL, chamber.Delete} {
		for i := range chamber.Compactions(newTalk(t)) { // each has a model of its own
			talk := newTalk(t)
			e := chamber.Compactions(talk)[i]
			if !plays(e, mode) {
				continue
			}
			t.Run(mode+"/"+e.Name, func(t *testing.T) {
				t.Parallel()
				c := newFoldChamber(t, mode)
				runEpisode(t, c, e)
				talk.judge(t, c)
			})
		}
	}
}

func newFoldChamber(t *testing.T, mode string) *chamber.Chamber {
	t.Helper()
	c := newChamber(t, mode)
	c.Length = 10 * time.Millisecond
	if mode == chamber.Delete {
		c.Program = pinnedProgram(t)
	}
	return c
}

// talk is the model of the agents: a question is answered by a call of the terminal, its result by a long text, and a
// summary comes slowly. The key says who asks.
type talk struct {
	*fakellm.Server
	mu    sync.Mutex
	holds map[string]*hold // by agent and moment
	told  map[string]int   // summaries by agent
}

// hold is an answer that is kept for ever.
type hold struct {
	come chan struct{}
	once sync.Once
	gate chan struct{} // of a summary's pieces; closed when it is let go
}

func (h *hold) met() { h.once.Do(func() { close(h.come) }) }

var filler = strings.Repeat("and what follows from that is told at length ", 310) // some 14000 characters: two such answers are more than the tail

func newTalk(t *testing.T) *talk {
	k := &talk{holds: map[string]*hold{}, told: map[string]int{}}
	k.Server = fakellm.Start(fakellm.Options{Each: k.answer})
	t.Cleanup(k.Close)
	return k
}

// Hold is what the faults ask for.
func (k *talk) Hold(ctx context.Context, tag string, at chamber.Moment) (letGo func(), err error) {
	h := &hold{come: make(chan struct{}), gate: letThrough(3)}
	k.mu.Lock()
	k.holds[tag+" "+string(at)] = h
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-h.come:
		return func() { close(h.gate) }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// held takes a hold for this request, if there is one.
func (k *talk) held(tag string, at chamber.Moment) *hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := tag + " " + string(at)
	h := k.holds[name]
	delete(k.holds, name)
	return h
}

var question = regexp.MustCompile(`TA\w+Q`)

func (k *talk) answer(r fakellm.Request) fakellm.Response {
	if r.Kind == "aux" {
		return k.summary(r)
	}
	sent := messagesOf(r)
	last, token := sent[len(sent)-1], ""
	for _, m := range sent {
		if m.Role == "user" {
			all := question.FindAllString(m.Content, -1)
			token = strings.TrimSuffix(all[len(all)-1], "Q")
		}
	}
	if last.Role == "user" {
		call := fakellm.ToolCall{Name: "terminal", Args: map[string]string{"command": "echo " + token + "T"}}
		if h := k.held(r.Key, chamber.Asked); h != nil {
			h.met()
			call.Gate = make(chan struct{})
		}
		return call
	}
	if h := k.held(r.Key, chamber.Found); h != nil {
		h.met()
		return fakellm.Hang{}
	}
	text := fakellm.Text{Text: token + "A " + filler, ChunkChars: 500}
	if h := k.held(r.Key, chamber.Answering); h != nil {
		text.Gate, text.Sent = letThrough(4), func(n int) {
			if n == 4 {
				h.met()
			}
		}
	}
	return text
}

// letThrough is a gate for n pieces and no more.
func letThrough(n int) chan struct{} {
	gate := make(chan struct{}, n)
	for range n {
		gate <- struct{}{}
	}
	return gate
}

// summary comes in ten pieces over a quarter of a second.
func (k *talk) summary(r fakellm.Request) fakellm.Response {
	k.mu.Lock()
	k.told[r.Key]++
	n := k.told[r.Key]
	k.mu.Unlock()
	text := fakellm.Text{Text: strings.Repeat(fmt.Sprintf("summary %d of %s. ", n, r.Key), 20), ChunkChars: 40}
	if h := k.held(r.Key, chamber.Summarising); h != nil {
		text.Gate, text.Sent = h.gate, func(n int) {
			if n == 3 {
				h.met()
			}
		}
		return text
	}
	gate := make(chan struct{})
	text.Gate = gate
	go func() {
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-r.Gone:
				return
			}
			select {
			case gate <- struct{}{}:
			case <-r.Gone:
				return
			}
		}
	}()
	return text
}

func messagesOf(r fakellm.Request) []chamber.Sent {
	var body struct{ Messages []chamber.Sent }
	_ = json.Unmarshal(r.Body, &body) // a body that is none fails where it is looked at
	return body.Messages
}

// judge looks at all that was sent: each request is what the rows gave, without a gap, and the last one of each
// conversation carries every acknowledged question once.
func (k *talk) judge(t *testing.T, c *chamber.Chamber) {
	t.Helper()
	last := map[string][]chamber.Sent{}
	for _, r := range k.Main() {
		sent := messagesOf(r)
		if claim := r.Header.Get(chamber.ClaimHeader); claim == "" || claim != chamber.SentDigest(sent) {
			t.Errorf("request %d of %s is not what the rows gave", r.N, r.Key)
		}
		for _, m := range sent {
			if strings.HasPrefix(m.Content, "[no ") {
				t.Errorf("request %d of %s has a gap: %s", r.N, r.Key, m.Content)
			}
		}
		last[r.Key] = sent
	}
	for tag := range last {
		acked, err := c.Acked(tag)
		if err != nil || len(acked) < 3 {
			t.Fatalf("%s had %d turns acknowledged: %v", tag, len(acked), err)
		}
		for _, token := range acked {
			if n := countIn(last[tag], token+"Q"); n != 1 {
				t.Errorf("the last request of %s carries %sQ %dx", tag, token, n)
			}
		}
		if k.told[tag] == 0 {
			t.Errorf("%s never asked for a summary", tag)
		}
	}
}

func countIn(sent []chamber.Sent, text string) (n int) {
	for _, m := range sent {
		n += strings.Count(m.Content, text)
	}
	return n
}
