package tool

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"gatewayd/internal/problem"
)

const (
	together     = 2 * time.Second // a swarm that ends together is one message, not eight turns
	newsTries    = 4
	newsPause    = 15 * time.Second // between tries: a conversation whose box is full has to work it off
	newsTime     = 30 * time.Minute // a turn before it may take long
	newsOutput   = 2_000            // characters of one command's output
	newsTogether = 16               // commands in one message with their output; the others by name
)

// news is the ends that conversations are to be told of. For each of them one goroutine at most is under way: what ends while it
// waits its place behind a turn goes with the next message.
type news struct {
	wait time.Duration

	mu      sync.Mutex
	tell    Tell
	pending map[string][]*command
	going   map[string]bool
}

func newNews(wait time.Duration) *news {
	return &news{wait: wait, pending: map[string][]*command{}, going: map[string]bool{}}
}

func (n *news) connect(tell Tell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tell = tell
}

func (n *news) add(session string, c *command) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tell == nil {
		return
	}
	n.pending[session] = append(n.pending[session], c)
	if !n.going[session] {
		n.going[session] = true
		go n.deliver(session, n.tell)
	}
}

// deliver tells a conversation until there is nothing left to tell.
func (n *news) deliver(session string, tell Tell) {
	for {
		pause(n.wait)
		batch := n.next(session)
		if len(batch) == 0 {
			return
		}
		if err := attempt(tell, session, batch); err != nil {
			slog.Warn("end of a background command not told", "session", session, "commands", len(batch), "error", err)
		}
	}
}

// next takes what is pending, or ends the delivery in the same critical section.
func (n *news) next(session string) []*command {
	n.mu.Lock()
	defer n.mu.Unlock()
	batch := n.pending[session]
	delete(n.pending, session)
	if len(batch) == 0 {
		delete(n.going, session)
	}
	return batch
}

func attempt(tell Tell, session string, batch []*command) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), newsTime)
	defer cancel()
	for range newsTries {
		if err = tell(ctx, session, "ended-"+batch[0].handle, message(batch)); err == nil || !problem.Is(err, problem.Busy) {
			return err
		}
		pause(newsPause)
	}
	return err
}

func pause(d time.Duration) { <-time.After(d) }

// message says what has ended, and how, with the end of its output.
func message(batch []*command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%d background command(s) of this conversation ended]\n", len(batch))
	for i, c := range batch {
		words, _, _ := c.outcome(c.process.Record())
		fmt.Fprintf(&b, "\n%s: %s\n%s\n", c.handle, oneLine(c.text, 200), words)
		if i < newsTogether {
			if text, _ := c.out.page(0, 40, clean); text != "" {
				b.WriteString(Clip(text, newsOutput))
			}
		}
	}
	return b.String()
}

// oneLine is the beginning of a command, for lists.
func oneLine(text string, most int) string {
	text = clean(strings.Join(strings.Fields(text), " "))
	if len(text) <= most {
		return text
	}
	return trimEnd(text[:most]) + "…"
}
