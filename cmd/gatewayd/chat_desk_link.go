package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
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
		place, err := o.send(ctx, sending, m)
		o.sent(m)
		if sending.Err() == nil || err == nil {
			o.desk.later(ctx, func() { o.desk.accepted(ctx, m, place, err) })
		}
	}
}

// send sends a message until it is taken or refused, or taken back.
func (o *outbox) send(ctx, sending context.Context, m spoken) (place int, err error) {
	for {
		if place, err = o.desk.post(ctx, sending, m); err == nil || !gone(err) || sending.Err() != nil {
			return place, err
		}
		failed := err
		o.desk.later(ctx, func() { o.desk.lost(failed) })
		if mutation.On("reconnect-sends-the-message-again") {
			m.uid = sessiondb.NewUID()
		}
		if !pause(sending, tryEvery) {
			return 0, sending.Err()
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

// post sends a message once. A conversation that does not exist yet is made and watched first, so that nothing of its answer is missed.
func (d *desk) post(ctx, sending context.Context, m spoken) (place int, err error) {
	cl, err := d.dial()
	if err != nil {
		return 0, err
	}
	if err := cl.call(sending, http.MethodPost, "/api/sessions", map[string]string{"id": m.session, "source": "cli"}, nil); err != nil {
		return 0, err
	}
	begun := make(chan (<-chan struct{}), 1)
	d.later(ctx, func() {
		if d.watching == nil && d.session == m.session {
			d.watch(ctx)
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
		return 0, sending.Err()
	}
	var answer struct{ Accepted struct{ Position int } }
	body := map[string]any{"text": m.text, "uid": m.uid, "source": "cli"}
	err = cl.call(sending, http.MethodPost, sessionPath(m.session, "/messages"), body, &answer)
	return answer.Accepted.Position, err
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

// accepted hears what became of a message that was sent. One that the daemon had already, from before a connection was lost, may have
// been answered meanwhile: the rows tell.
func (d *desk) accepted(ctx context.Context, m spoken, place int, err error) {
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
	if place == 0 {
		d.readRows(ctx)
	}
}

// watch is who listens to what happens in a conversation.
type watch struct {
	events chan heard
	begun  chan struct{} // closed when nothing is missed any more
	stop   context.CancelFunc
	seq    int64 // of the newest event
	once   sync.Once
}

// watch begins to listen to the conversation, in place of the one before.
func (d *desk) watch(ctx context.Context) {
	if d.watching != nil {
		d.watching.stop()
	}
	d.turn, d.prose, d.aside = nil, terminal.Prose{Width: d.prose.Width, Palette: d.palette}, terminal.Prose{Width: d.prose.Width, Palette: terminal.Palette{Off: true}}
	ctx, stop := context.WithCancel(ctx)
	w := &watch{events: make(chan heard), begun: make(chan struct{}), stop: stop}
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
		if e.name == evWatching {
			w.once.Do(func() { close(w.begun) })
		}
		if !w.hand(ctx, heard{event: e}) {
			return ctx.Err()
		}
	}
	return errBroken(session, nil)
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
	if why := textOf(err); !strings.Contains(why, "is not running") && !strings.Contains(why, "closed the connection") {
		d.away.why = why
	}
}

// back goes on with a conversation after the watch has begun, or begun again. Of a turn that runs on, what is told anew is what was
// seen already; where the daemon is another process, the answer begins anew, or is in the rows.
func (d *desk) back(ctx context.Context, e happened) {
	d.away = nil
	before := d.watching.seq
	d.watching.seq = e.Seq
	switch t := d.turn; {
	case t == nil && e.Turn != "":
		d.turn = &turnSeen{id: e.Turn, since: time.Now(), seen: map[string]bool{}, unheard: true} // begun before we came
	case t == nil:
	case t.id == e.Turn && e.Seq >= before && before > 0:
		t.again = t.all // the same process tells the turn from its beginning
	default:
		d.pause()
		t.unheard, t.tools, t.all, t.again = true, nil, 0, 0
		d.dim("the daemon was started anew in the middle of this answer")
		if e.Turn != t.id {
			d.readRows(ctx)
		}
	}
}

// look is what is done once a second: a turn that nobody goes on with is looked up.
func (d *desk) look(ctx context.Context) {
	if d.turn != nil && d.turn.unheard && d.away == nil {
		d.readRows(ctx)
	}
}

// readRows looks up in the rows what became of the turn that is waited for, and of messages that were sent more than once.
func (d *desk) readRows(ctx context.Context) {
	session := d.session
	go func() {
		rows, err := d.stored(ctx, session)
		d.later(ctx, func() {
			if err == nil && session == d.session {
				d.settle(rows)
			}
		})
	}()
}

// settle shows from the rows what was missed: the answer of the turn that was cut off, and those of messages that are no longer
// waiting.
func (d *desk) settle(rows []storedRow) {
	for _, m := range append([]spoken{}, d.waiting...) {
		for _, row := range rows {
			if row.UID == m.uid && (d.turn == nil || d.turn.unheard) && d.fromRows(rows, row.TurnID) {
				d.forget(m.uid)
			}
		}
	}
	if d.turn != nil && d.turn.unheard && d.fromRows(rows, d.turn.id) {
		d.turn, d.asked, d.stops = nil, nil, 0
	}
}

// fromRows shows the end of a turn as it is stored, and reports whether there is one.
func (d *desk) fromRows(rows []storedRow, turn string) bool {
	end := ""
	for _, row := range rows {
		if row.TurnID == turn && row.answers() {
			end = row.Content
		}
	}
	if end == "" || turn == "" {
		return false
	}
	d.print(d.prose.Write(text(end))...)
	d.print(d.prose.End()...)
	d.dim(fmt.Sprintf("as it is stored in session %s", d.session))
	d.print("")
	return true
}
