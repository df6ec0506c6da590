package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"gatewayd/config"
	"gatewayd/gateway/slash"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/terminal"
	"gatewayd/sessiondb"
)

// historyName is the file of the home in which a person's lines are kept.
const historyName = "chat_history"

// desk is a conversation on a terminal that can be drawn on: what happens appears above the line that is edited.
//
// What is typed is accepted by the daemon at once and answered by itself (the outbox), and whatever happens in the conversation is
// watched (the watch), so neither ends with a connection, nor with the daemon. One goroutine owns the desk; what waits for the
// daemon does so elsewhere and hands over what is to be done then.
type desk struct {
	dial    func() (*client, error)
	term    *terminal.Terminal
	palette terminal.Palette
	taste   taste

	session  string
	settled  atomic.Pointer[string] // session, for completions
	calls    chan func()            // of those who waited for the daemon
	outbox   *outbox
	watching *watch
	away     *absence // nil: the daemon is there

	printed []string        // since the last frame
	shown   terminal.Frame  // the last one
	prose   terminal.Prose  // the answer
	aside   terminal.Prose  // the model's reasoning
	turn    *turnSeen       // nil: none runs
	last    string          // the turn before
	greeted string          // the turn whose message was shown at the beginning
	told    map[string]bool // turns that were shown from the rows, whose events may still come
	waiting []spoken        // accepted, or on its way, and not begun
	asked   []approval
	stops   int // how often a stop was asked for

	stopping <-chan struct{} // closed when the daemon has heard the last one; nil: none was asked for
	left     bool
}

// taste is how a person wants it.
type taste struct {
	whole     bool // answers in one piece
	reasoning bool // with the model's reasoning
}

// spoken is something that was typed.
type spoken struct {
	uid, session, text string
	echoed             bool // it stands above already
	accepted           bool
}

// onDesk has a conversation on a terminal until the person leaves.
func (c *cli) onDesk(ctx context.Context, in, out *os.File, session string, begun bool, how taste) error {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	history, _ := terminal.OpenHistory(filepath.Join(loaded.Home, historyName)) // one that cannot be read is no reason not to talk
	d := &desk{
		dial: c.dial, session: session, taste: how, calls: make(chan func(), 16),
		palette: terminal.Palette{Off: colourless(loaded.Environ)},
	}
	d.settled.Store(&session)
	d.term, err = terminal.Open(terminal.Options{In: in, Out: out, Environ: loaded.Environ, Palette: d.palette, History: history, Complete: d.complete})
	if err != nil {
		return err
	}
	ctx, cancel := leaving(ctx)
	defer cancel()
	d.resize(d.term.Width())
	d.outbox = newOutbox(d)
	go d.outbox.run(ctx)
	used := make(chan error, 1)
	go func() { used <- d.term.Use(ctx) }()
	d.greet(ctx, begun)
	d.talk(ctx)
	waitFor(ctx, d.stopping, stopBound)
	d.term.Close()
	if err := <-used; err != nil {
		return &problem.Error{Kind: problem.Unavailable, Thing: "the terminal", What: "cannot be used", Err: err}
	}
	d.farewell(out)
	return nil
}

// leaving ends with a signal that would end the program otherwise: the terminal is given back first, and the answer goes on.
func leaving(ctx context.Context) (context.Context, context.CancelFunc) {
	if mutation.On("ended-terminal-stays-raw") {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
}

// colourless reports that a person wants no colours, or that there are none.
func colourless(environ config.Environ) bool {
	return environ.Get("NO_COLOR") != "" || dumb(environ)
}

// dumb reports a terminal on which nothing can be drawn anew.
func dumb(environ config.Environ) bool {
	name := environ.Get("TERM")
	return name == "" || name == "dumb"
}

// talk does what comes until the person leaves.
func (d *desk) talk(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for !d.left {
		d.draw()
		var events <-chan heard
		if d.watching != nil {
			events = d.watching.events
		}
		select {
		case <-ctx.Done():
			return
		case in, more := <-d.term.Inputs():
			if !more {
				return
			}
			d.input(ctx, in)
		case h := <-events:
			d.hear(ctx, h)
		case call := <-d.calls:
			call()
		case <-second.C:
			d.look(ctx)
		}
	}
	d.pause() // what was seen of an answer stays
	d.draw()
}

// later runs do in this desk's goroutine; it is for the others.
func (d *desk) later(ctx context.Context, do func()) {
	select {
	case d.calls <- do:
	case <-ctx.Done():
	}
}

// input does what a person wants.
func (d *desk) input(ctx context.Context, in terminal.Input) {
	switch in.Kind {
	case terminal.Line:
		d.line(ctx, in.Text)
	case terminal.Interrupt:
		d.interrupt(ctx)
	case terminal.Leave:
		d.left = true
	case terminal.Resized:
		d.resize(in.Width)
	}
}

// resize breaks what comes from now on where the terminal ends.
func (d *desk) resize(width int) {
	d.prose.Width, d.aside.Width = max(2, min(width, readable)), max(2, min(width, readable))
	d.prose.Palette = d.palette
	d.aside.Palette = terminal.Palette{Off: true}
}

// line takes a line: an answer to what is asked, a command, or something to say.
func (d *desk) line(ctx context.Context, text string) {
	word := strings.ToLower(strings.TrimSpace(text))
	decision, isAnswer := answers[word]
	_, command, _ := slash.Parse(text)
	switch {
	case word == "":
	case word == "/quit" || word == "/exit":
		d.left = true
	case len(d.asked) > 0 && isAnswer:
		d.decide(ctx, d.asked[0], decision)
	case command:
		d.echo(text)
		d.command(ctx, strings.TrimSpace(text))
	default:
		d.say(strings.TrimSpace(text))
	}
}

// say sends a message. It is shown at once where nothing else is being answered, else when its turn comes.
func (d *desk) say(text string) {
	if d.turn != nil && mutation.On("typed-during-an-answer-is-lost") {
		return
	}
	m := spoken{uid: sessiondb.NewUID(), session: d.session, text: text, echoed: d.turn == nil && len(d.waiting) == 0}
	if m.echoed {
		d.echo(text)
	}
	if !d.outbox.put(m) {
		d.trouble(fmt.Errorf("%d messages wait to be sent already; this one was not taken", outboxMost))
		return
	}
	d.waiting = append(d.waiting, m)
}

// command runs a command beside whatever runs.
func (d *desk) command(ctx context.Context, line string) {
	session := d.session
	go func() {
		reply, err := ask(d, func(cl *client) (commandReply, error) { return cl.command(ctx, session, line) })
		d.later(ctx, func() { d.replied(ctx, reply, err) })
	}()
}

func (d *desk) replied(ctx context.Context, reply commandReply, err error) {
	if err != nil {
		d.trouble(err)
		return
	}
	d.printText(terminal.Plain, reply.Text)
	d.print("")
	if reply.Session != "" {
		d.move(ctx, reply.Session)
	}
}

// move goes on in another conversation.
func (d *desk) move(ctx context.Context, session string) {
	if session == d.session && d.watching != nil {
		return
	}
	d.session = session
	d.settled.Store(&session)
	d.waiting, d.asked, d.told, d.greeted = nil, nil, nil, ""
	d.watch(ctx, unknown)
}

// interrupt stops the answer; asked for again, it leaves. Where nothing runs, what could not be sent yet is taken back.
func (d *desk) interrupt(ctx context.Context) {
	d.stops++
	switch {
	case d.stops > 1:
		d.left = true
	case d.turn != nil:
		d.stopTurn(ctx, d.session)
	case d.takeBack():
		d.stops = 0
	default:
		d.print(d.palette.Paint(terminal.Dim, "Ctrl-C again leaves, or Ctrl-D"))
	}
}

// stopBound is what a stop may take to be heard when the person leaves.
const stopBound = 3 * time.Second

func (d *desk) stopTurn(ctx context.Context, session string) {
	heard := make(chan struct{})
	d.stopping = heard
	go func() {
		defer close(heard)
		_, _ = ask(d, func(cl *client) (any, error) { cl.stop(ctx, session); return nil, nil })
	}()
}

// takeBack gives up what is not accepted yet.
func (d *desk) takeBack() (any bool) {
	for _, m := range d.outbox.clear() {
		d.printText(terminal.Dim, "not sent: "+m.text)
		d.forget(m.uid)
		any = true
	}
	return any
}

// forget takes a message off the list of those that wait.
func (d *desk) forget(uid string) {
	for i, m := range d.waiting {
		if m.uid == uid {
			d.waiting = append(d.waiting[:i:i], d.waiting[i+1:]...)
			return
		}
	}
}

// decide answers what a tool asks.
func (d *desk) decide(ctx context.Context, a approval, decision string) {
	d.asked = d.asked[1:]
	go func() {
		_, err := ask(d, func(cl *client) (any, error) { return nil, cl.decide(ctx, a.ID, decision) })
		d.later(ctx, func() {
			if err != nil {
				d.trouble(err)
			}
		})
	}()
}

// ask is one call of the daemon, wherever it is now.
func ask[T any](d *desk, do func(cl *client) (T, error)) (out T, err error) {
	cl, err := d.dial()
	if err != nil {
		return out, err
	}
	return do(cl)
}

// farewell says what goes on without the person.
func (d *desk) farewell(out *os.File) {
	switch {
	case d.turn != nil && d.stops == 0:
		fmt.Fprintf(out, "the answer goes on; see it with: gatewayd chat --session %s\n", line(d.session))
	case len(d.waiting) > 0:
		for _, m := range d.waiting {
			if !m.accepted {
				fmt.Fprintf(out, "not sent: %s\n", short(m.text))
			}
		}
	}
}
