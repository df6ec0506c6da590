package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/terminal"
	"gatewayd/sessiondb"
)

const (
	outboxMost = 256                    // messages that wait to be sent
	tryEvery   = 400 * time.Millisecond // how often a daemon that is away is looked for
	watchFirst = 3 * time.Second        // what the watch may take to begin before a message is sent without it
)

// absence is a daemon that is not there.
type absence struct {
	since time.Time
	why   string // what it answers, where it answers
}

func (a *absence) words(waiting int) string {
	said := "the daemon is not there"
	if a.why != "" {
		said = a.why
	}
	said += "; looking for it " + sinceWords(a.since)
	if waiting > 0 {
		said += "· nothing is lost, " + many(waiting, "message") + " of yours will be answered · Ctrl-C takes back what is not sent"
	}
	return said
}

// outbox sends what was typed, in order, each message until the daemon has taken it. A message keeps its uid however often it is sent,
// so it is stored once.
type outbox struct {
	desk *desk
	wake chan struct{}
	mu   sync.Mutex
	list []spoken
	gave context.CancelFunc // up the one that is being sent
}

func newOutbox(d *desk) *outbox { return &outbox{desk: d, wake: make(chan struct{}, 1)} }

// put takes a message, and never blocks. It reports false when there are too many.
func (o *outbox) put(m spoken) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) >= outboxMost {
		return false
	}
	o.list = append(o.list, m)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return true
}

// clear takes everything back that was not accepted yet.
func (o *outbox) clear() []spoken {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.list
	o.list = nil
	if o.gave != nil {
		o.gave()
	}
	return all
}

// first is the message to send, which can be taken back until it is accepted.
func (o *outbox) first(ctx context.Context) (m spoken, sending context.Context, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) == 0 {
		return m, nil, false
	}
	sending, o.gave = context.WithCancel(ctx)
	return o.list[0], sending, true
}

// sent takes the first message off, unless it was taken back.
func (o *outbox) sent(m spoken) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gave()
	o.gave = nil
	if len(o.list) > 0 && o.list[0].uid == m.uid {
		o.list = o.list[1:]
	}
}

func (o *outbox) run(ctx context.Context) {
	for {
		m, sending, ok := o.first(ctx)
		if !ok {
			select {
			case <-o.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := o.send(ctx, sending, m)
		o.sent(m)
		if sending.Err() == nil || err == nil {
			o.desk.later(ctx, func() { o.desk.accepted(m, err) })
		}
	}
}

// send sends a message until it is taken or refused, or taken back.
func (o *outbox) send(ctx, sending context.Context, m spoken) error {
	for {
		err := o.desk.post(ctx, sending, m)
		if err == nil || !gone(err) || sending.Err() != nil {
			return err
		}
		o.desk.later(ctx, func() { o.desk.lost(err) })
		if mutation.On("reconnect-sends-the-message-again") {
			m.uid = sessiondb.NewUID()
		}
		if !pause(sending, tryEvery) {
			return sending.Err()
		}
	}
}

// pause waits, and reports false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// post sends a message once. A conversation that does not exist yet is made, and each is watched first, so that what was missed of an
// answer before is shown, and nothing of this one is missed.
func (d *desk) post(ctx, sending context.Context, m spoken) error {
	cl, err := d.dial()
	if err != nil {
		return err
	}
	if err := cl.call(sending, http.MethodPost, "/api/sessions", map[string]string{"id": m.session, "source": "cli"}, nil); err != nil {
		return err
	}
	begun := make(chan (<-chan struct{}), 1)
	d.later(ctx, func() {
		if d.watching == nil && d.session == m.session {
			d.watch(ctx, 0)
		}
		if d.watching != nil {
			begun <- d.watching.begun
		}
		close(begun)
	})
	select {
	case watched := <-begun:
		waitFor(sending, watched, watchFirst)
	case <-sending.Done():
		return sending.Err()
	}
	body := map[string]any{"text": m.text, "uid": m.uid, "source": "cli"}
	return cl.call(sending, http.MethodPost, sessionPath(m.session, "/messages"), body, nil)
}

func waitFor(ctx context.Context, what <-chan struct{}, bound time.Duration) {
	if what == nil {
		return
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-what:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// accepted hears what became of a message that was sent. The watch tells when its turn begins, or the rows where that was missed.
func (d *desk) accepted(m spoken, err error) {
	if err != nil {
		d.forget(m.uid)
		d.trouble(err)
		return
	}
	d.away = nil
	for i := range d.waiting {
		if d.waiting[i].uid == m.uid {
			d.waiting[i].accepted = true
		}
	}
}

// watch is who listens to what happens in a conversation.
type watch struct {
	events chan heard
	begun  chan struct{} // closed when nothing is missed any more; another one after each loss of the connection
	caught bool          // begun is closed
	stop   context.CancelFunc
	life   string       // of the daemon
	seq    int64        // of the newest event
	upTo   atomic.Int64 // the newest row that was shown, or is older than what was; unknown: not known yet
}

// unknown is where a conversation was shown up to before its rows were looked at.
const unknown = -1

// watch begins to listen to the conversation, in place of the one before. What its rows have after upTo was not shown yet.
func (d *desk) watch(ctx context.Context, upTo int64) {
	if d.watching != nil {
		d.watching.stop()
	}
	d.turn, d.prose, d.aside = nil, terminal.Prose{Width: d.prose.Width, Palette: d.palette}, terminal.Prose{Width: d.prose.Width, Palette: terminal.Palette{Off: true}}
	ctx, stop := context.WithCancel(ctx)
	w := &watch{events: make(chan heard), begun: make(chan struct{}), stop: stop}
	w.upTo.Store(upTo)
	d.watching = w
	go w.run(ctx, d.dial, d.session)
}

// run listens until ctx ends; a connection that is lost is made anew.
func (w *watch) run(ctx context.Context, dial func() (*client, error), session string) {
	for {
		err := w.listen(ctx, dial, session)
		if ctx.Err() != nil || !w.hand(ctx, heard{err: err, end: true}) || !pause(ctx, tryEvery) {
			return
		}
	}
}

func (w *watch) hand(ctx context.Context, h heard) bool {
	select {
	case w.events <- h:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *watch) listen(ctx context.Context, dial func() (*client, error), session string) error {
	cl, err := dial()
	if err != nil {
		return err
	}
	resp, err := cl.send(ctx, http.MethodGet, sessionPath(session, "/events"), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for e, err := range events(resp.Body) {
		if err != nil {
			return errBroken(session, err)
		}
		h := heard{event: e}
		if e.name == evWatching {
			// Before anything later is heard: what ended while nobody listened is in the rows alone.
			if h.rows, err = cl.storedAfter(ctx, session, w.upTo.Load()); err != nil {
				return err
			}
		}
		if !w.hand(ctx, h) {
			return ctx.Err()
		}
	}
	return errBroken(session, nil)
}

// caughtUp says that nothing is missed any more; dropped, that it may be again.
func (w *watch) caughtUp() {
	if !w.caught {
		close(w.begun)
	}
	w.caught = true
}

func (w *watch) dropped() {
	if w.caught {
		w.begun, w.caught = make(chan struct{}), false
	}
}

// lost says that the daemon is not there.
func (d *desk) lost(err error) {
	if err == nil || !gone(err) {
		if err != nil && d.away == nil {
			d.trouble(err)
		}
		return
	}
	if d.away == nil {
		d.away = &absence{since: time.Now()}
	}
	cut := errors.Is(err, syscall.ECONNRESET) // as one that closed the connection, which had more to read
	if why := textOf(err); !cut && !strings.Contains(why, "is not running") && !strings.Contains(why, "closed the connection") {
		d.away.why = why
	}
}
