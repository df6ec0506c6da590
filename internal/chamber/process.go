package chamber

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"sync"
	"syscall"
	"time"
)

// Process is a started child; reaper.Child is one.
type Process interface {
	PID() int
	Signal(sig syscall.Signal) error
	Done() <-chan struct{}
	Wait() (code, signal int, err error)
}

// Starter starts a process in dir and copies what it prints.
type Starter func(argv, env []string, dir string, out, errs io.Writer) (Process, error)

// patience is how long the harness waits for something that happens in milliseconds on an idle machine. It is longer
// than a lock may be waited out.
const patience = 2 * busyPatience

// actorProcess is a role that runs, and everything it has said.
type actorProcess struct {
	part Part
	name string
	proc Process
	errs lockedBuffer

	mu     sync.Mutex
	line   []byte         // begun and not ended yet
	tally  map[string]int // events by name; "acked" counts rows, "cycled" and the like the highest number
	events map[string]Event
	errors []Event
	news   chan struct{} // closed and made new with each event
	killed bool          // by the harness
}

func newActorProcess(part Part) *actorProcess {
	return &actorProcess{part: part, name: part.name(), tally: map[string]int{}, events: map[string]Event{}, news: make(chan struct{})}
}

// Write takes the role's output, line by line.
func (p *actorProcess) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, data...)
	for {
		at := bytes.IndexByte(p.line, '\n')
		if at < 0 {
			return len(data), nil
		}
		var e Event
		if err := json.Unmarshal(p.line[:at], &e); err != nil {
			e = Event{Event: "error", Class: "garbled", Text: string(p.line[:at])}
		}
		p.line = p.line[at+1:]
		p.note(e)
	}
}

func (p *actorProcess) note(e Event) {
	p.events[e.Event] = e
	switch {
	case e.Event == "error":
		p.errors = append(p.errors, e)
	case e.Event == "acked":
		p.tally["acked"] += e.Count
	default:
		p.tally[e.Event]++
	}
	close(p.news)
	p.news = make(chan struct{})
}

// count says how often an event came; for "acked", how many rows.
func (p *actorProcess) count(event string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tally[event]
}

func (p *actorProcess) last(event string) Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[event]
}

// await returns when the event has come at least so often. A process that ends before is an error.
func (p *actorProcess) await(ctx context.Context, event string, times int) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		p.mu.Lock()
		have, news := p.tally[event], p.news
		p.mu.Unlock()
		if have >= times {
			return nil
		}
		select {
		case <-news:
		case <-p.proc.Done():
			if p.count(event) >= times {
				return nil
			}
			return fmt.Errorf("%s ended before it was %s %d times (%d): %s", p.name, event, times, have, p.trouble())
		case <-limit.C:
			return fmt.Errorf("%s was not %s %d times within %v (%d)", p.name, event, times, patience, have)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitMore is await for events from now on.
func (p *actorProcess) awaitMore(ctx context.Context, event string, more int) error {
	return p.await(ctx, event, p.count(event)+more)
}

// trouble is what the process said about an end that nobody asked for.
func (p *actorProcess) trouble() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := ""
	for _, e := range p.errors {
		text += fmt.Sprintf("[%s] %s; ", e.Class, e.Text)
	}
	return text + p.errs.tail()
}

// kill ends the process as a machine would, and waits until it is gone.
func (p *actorProcess) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	_ = p.proc.Signal(syscall.SIGKILL)
	<-p.proc.Done()
}

// stop asks the process to end and waits until it has, at most patience.
func (p *actorProcess) stop(ctx context.Context) {
	_ = p.proc.Signal(syscall.SIGTERM)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-p.proc.Done():
	case <-limit.C:
		p.told(Event{Event: "error", Class: "stuck", Text: "did not end after SIGTERM"})
		p.kill()
	case <-ctx.Done():
		p.kill()
	}
}

func (p *actorProcess) told(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(e)
}

// verdict says what is wrong with how the process behaved and ended, against what its part expects.
func (p *actorProcess) verdict() (wrong []string) {
	code, signal, err := p.proc.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return nil
	}
	met := 0
	for _, e := range p.errors {
		if p.part.Error != "" && e.Class == p.part.Error {
			met++
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s: unexpected error [%s] %s", p.name, e.Class, e.Text))
	}
	wantCode := 0
	if p.part.Error != "" {
		wantCode = 1
		if met != 1 {
			wrong = append(wrong, fmt.Sprintf("%s met the error %q %dx instead of once", p.name, p.part.Error, met))
		}
	}
	if len(p.errors) == 0 && (code != wantCode || signal != 0 || err != nil) || code != wantCode && met == len(p.errors) && met > 0 {
		wrong = append(wrong, fmt.Sprintf("%s ended with code %d, signal %d: %v %s", p.name, code, signal, err, p.errs.tail()))
	}
	return wrong
}

// tallies is a copy of what was counted.
func (p *actorProcess) tallies() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.tally)
}

// lockedBuffer keeps the last of what a process wrote to its error output.
type lockedBuffer struct {
	mu   sync.Mutex
	text []byte
}

const keptOutput = 4 << 10

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, data...)
	if over := len(b.text) - keptOutput; over > 0 {
		b.text = append([]byte(nil), b.text[over:]...)
	}
	return len(data), nil
}

func (b *lockedBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(bytes.TrimSpace(b.text))
}
