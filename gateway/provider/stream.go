package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"gatewayd/internal/mutation"
)

// Causes with which an attempt's context is cancelled by its own clock.
var (
	errWhole      = errors.New("the answer was not complete within the request timeout")
	errFirstToken = errors.New("no first token")
	errStall      = errors.New("the stream went silent")
	errFinished   = errors.New("the answer is complete, the stream stayed open")
	errDropped    = errors.New("the stream ended in the middle of the answer")
)

const (
	maxErrorBody = 64 << 10
	drainGrace   = 25 * time.Millisecond
)

// clock ends an attempt that takes too long. Only meaningful chunks move it: a proxy that sends comments while the model hangs must
// not look alive.
type clock struct {
	whole        *time.Timer
	first, stall time.Duration
	begun        time.Time
	waited       time.Duration // for the first meaningful chunk
	told         time.Time     // when progress was last told
	cancel       context.CancelCauseFunc

	mu      sync.Mutex // guards what follows
	silence *time.Timer
	phase   error // what it means when silence fires now
}

func (c *client) startClock(cancel context.CancelCauseFunc, first time.Duration) *clock {
	k := &clock{first: first, stall: c.opts.Stall, cancel: cancel, begun: time.Now()}
	k.whole = time.AfterFunc(c.opts.RequestTimeout, func() { cancel(errWhole) })
	k.await(errFirstToken, first)
	return k
}

// await starts the silence anew.
func (k *clock) await(phase error, d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.silence != nil {
		k.silence.Stop()
	}
	if mutation.On("silence-is-never-stale") && phase != errFinished {
		d = time.Hour
	}
	k.phase = phase
	k.silence = time.AfterFunc(d, func() { k.cancel(phase) })
}

// awaits reports that the silence would mean this now.
func (k *clock) awaits(phase error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.phase == phase
}

func (k *clock) moved() {
	if !k.awaits(errStall) {
		k.waited = time.Since(k.begun)
		k.await(errStall, k.stall)
		return
	}
	k.silence.Reset(k.stall)
}

// alive starts the wait for a first token anew, because something else than the stream tells that the server works.
func (k *clock) alive(show *screen) {
	k.mu.Lock()
	waiting := k.phase == errFirstToken
	if waiting {
		k.silence.Reset(k.first)
	}
	k.mu.Unlock()
	if waiting {
		show.sign(Delta{})
	}
}

// reading starts the wait for a first token anew, because the server got further with the prompt, and tells so now and then.
func (k *clock) reading(p progress, show *screen) {
	if !k.awaits(errFirstToken) {
		return
	}
	k.silence.Reset(k.first)
	sign := Delta{}
	if now := time.Now(); now.Sub(k.begun) > tellEvery && now.Sub(k.told) > tellEvery && p.of > 0 {
		k.told = now
		sign.Notice = fmt.Sprintf("the model server has read %d %% of the prompt (%d of %d tokens)", 100*p.read/p.of, p.read, p.of)
	}
	show.sign(sign)
}

// signEvery is how often an attempt that waits says so.
const signEvery = 30 * time.Second

// vouch gives a sign every signEvery until ctx ends: each wait of an attempt has a bound here, so that whoever watches for signs of life need
// not give up earlier. A model on a workstation may be silent for longer than anything else in a turn.
func (k *clock) vouch(ctx context.Context, show *screen) {
	tick := time.NewTicker(signEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !mutation.On("waits-give-no-sign") {
			show.sign(Delta{})
		}
	}
}

func (k *clock) stop() {
	k.whole.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silence.Stop()
}

// attempt is one call on the wire.
func (c *client) attempt(parent context.Context, k *call) (Response, *Error) {
	ctx, cancel := context.WithCancelCause(parent)
	clock := c.startClock(cancel, k.firstToken())
	var beside sync.WaitGroup
	beside.Go(func() { clock.vouch(ctx, k.show) })
	if c.asksSlots() {
		beside.Go(func() { c.lookAtSlots(ctx, clock, k.show) })
	}
	defer func() { clock.stop(); cancel(nil); beside.Wait() }()
	answer := &assembly{}
	err := c.receive(ctx, clock, k, answer)
	if err == nil || answer.finish != "" && parent.Err() == nil {
		// Once the server said why it stopped, nothing that happens to the connection afterwards takes the answer back.
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Class == Transport {
			c.ledger.done(clock.waited)
			unseen := answer.usage.Reasoning > 0 && answer.reasoning.Len() == 0
			if c.mute.Store(unseen); !unseen { // else the wait was for thoughts and tells nothing of the prompt
				c.measured(answer.usage, clock.waited)
			}
			return answer.response(), nil
		}
	}
	if parent.Err() != nil {
		return Response{}, interrupted(parent, answer.partial())
	}
	failed := c.failure(ctx, err, clock)
	failed.Partial = answer.partial()
	return Response{}, failed
}

// receive sends the request and feeds the answer to the assembly until it is complete.
func (c *client) receive(ctx context.Context, clock *clock, k *call, answer *assembly) error {
	request, err := c.newRequest(ctx, http.MethodPost, c.dialect.endpoint(), k.key, bytes.NewReader(k.body))
	if err != nil {
		return err
	}
	response, err := c.http.Load().Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
		return c.refused(response, text)
	}
	if err := c.follow(newChunks(response.Body), clock, answer, k.show); err != nil {
		return err
	}
	// A body read to its end gives its connection back; a server that keeps it open costs us a moment and a new connection.
	clock.await(errFinished, drainGrace)
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	return nil
}

// refused is an HTTP error status.
func (c *client) refused(response *http.Response, body []byte) *Error {
	err := classify(response.StatusCode, response.Header, body)
	if to := response.Header.Get("Location"); to != "" && response.StatusCode < 400 {
		err.Message, err.Remedy = "the server redirects to "+oneLine(to), "set model.base_url to the address it redirects to"
	}
	return c.clean(err)
}

// follow reads chunks to the end of the answer: [DONE], or the end of the stream after a finish_reason. A stream that ends before
// either has dropped. Lines that are no fields of an event are passed over, unless there is nothing else.
func (c *client) follow(chunks chunkReader, clock *clock, answer *assembly, show *screen) error {
	var junk []byte
	for {
		chunk, err := chunks.next()
		switch {
		case chunk.Junk:
			if junk == nil {
				junk = chunk.Data
			}
			continue
		case errors.Is(err, io.EOF) && answer.finish != "":
			return nil
		case errors.Is(err, io.EOF) && junk != nil:
			return fmt.Errorf("%w: %s", errGarbage, shorten(plainMessage(junk)))
		case errors.Is(err, io.EOF):
			return errDropped
		case err != nil:
			return err
		case chunk.Name == "error":
			return c.clean(classify(0, nil, chunk.Data))
		case len(bytes.TrimSpace(chunk.Data)) == 0:
			continue
		}
		read := answer.progress
		delta, meaningful, err := c.dialect.apply(answer, chunk)
		if delta != (Delta{}) {
			show.show(delta)
		}
		if err != nil {
			return err
		}
		if answer.done {
			return nil
		}
		if answer.progress != read {
			clock.reading(answer.progress, show)
			continue
		}
		if answer.fault != nil {
			return answer.fault
		}
		if answer.finish != "" && !clock.awaits(errFinished) {
			clock.await(errFinished, finishGrace)
		} else if meaningful && answer.finish == "" {
			clock.moved()
		}
	}
}

// failure names what went wrong with an attempt that has no answer.
func (c *client) failure(ctx context.Context, err error, clock *clock) *Error {
	if failed, ok := errors.AsType[*Error](err); ok {
		return c.clean(failed)
	}
	timeout := func(cause error, format string, d time.Duration) *Error {
		return &Error{Class: Timeout, Message: fmt.Sprintf(format, d.Round(time.Millisecond)), Remedy: remedies[Timeout], Err: cause}
	}
	if errors.Is(err, errEventTooLong) || errors.Is(err, errStreamTooLong) {
		return &Error{Class: FormatError, Message: err.Error() + ": a runaway, so it was cut off", Remedy: "look at the model server; repeating the request would repeat it", Err: err}
	}
	switch cause := context.Cause(ctx); cause {
	case errWhole:
		return timeout(cause, "the answer was not complete after %s", c.opts.RequestTimeout)
	case errFirstToken:
		return timeout(cause, "the server sent no token within %s", clock.first)
	case errStall:
		return timeout(cause, "the stream went silent for %s in the middle of the answer", clock.stall)
	}
	failed := &Error{Class: Transport, Message: "model server " + c.base.Host + ": " + transportMessage(err), Remedy: remedies[Transport], Err: err}
	return c.clean(failed)
}

// chunkReader gives what the stream is made of, whatever it is: events, or bare JSON objects one after another.
type chunkReader interface{ next() (event, error) }

// newChunks looks at the first byte: servers that ignore "stream" send one JSON object with whatever content type they like.
func newChunks(body io.Reader) chunkReader {
	events := newEventReader(body)
	for {
		head, err := events.r.Peek(1)
		if err != nil {
			return events
		}
		switch head[0] {
		case ' ', '\t', '\r', '\n':
			events.discard(1)
			continue
		case '{', '[':
			return &jsonReader{d: json.NewDecoder(io.LimitReader(events.r, maxStream))}
		}
		return events
	}
}

type jsonReader struct{ d *json.Decoder }

func (j *jsonReader) next() (event, error) {
	var raw json.RawMessage
	err := j.d.Decode(&raw)
	if list := looseList(raw); len(list) > 0 && looseObject(raw) == nil {
		raw = list[0] // an error in a list, as one large provider sends it
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return event{}, errGarbage
	}
	return event{Data: raw}, err
}
