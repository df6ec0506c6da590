package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"gatewayd/gateway/slash"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// errLeft is how a person leaves in the middle of an answer.
var errLeft = errors.New("left")

// heard is what the reader of a stream hands over.
type heard struct {
	event event
	rows  []storedRow // of evWatching, where the watch is a desk's: what was not shown yet
	err   error
	end   bool
}

// say says one text and shows what comes of it. Meanwhile lines are commands, answers to what is asked, or wait; Ctrl-C stops the
// turn, and a second one leaves.
func (t *talk) say(ctx context.Context, text string) error {
	if strings.TrimSpace(text) == "" {
		return usagef("nothing to say: the text is empty")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.said, t.shown, t.asked = "", false, nil
	session, stream := t.session, make(chan heard)
	go t.listen(ctx, session, strings.TrimSpace(text), stream)
	stopping := 0
	var ended error
	for {
		select {
		case h := <-stream:
			err := h.err
			if !h.end {
				err = t.show(h.event)
			}
			if ended == nil {
				ended = err
			}
			if h.end {
				return t.finish(ended, stopping > 0)
			}
		case line, more := <-t.lines:
			if !more {
				t.lines = nil
				continue
			}
			t.beside(ctx, line)
		case <-t.interrupts:
			if stopping++; stopping > 1 {
				return t.left()
			}
			if isTerminal(t.err) {
				t.aside("is being stopped; Ctrl-C again leaves]")
			}
			go t.stop(ctx, session)
		}
	}
}

// listen reads the stream of a turn and hands over what it hears; the end is the last.
func (t *talk) listen(ctx context.Context, session, text string, to chan<- heard) {
	hand := func(h heard) bool {
		select {
		case to <- h:
			return true
		case <-ctx.Done():
			return false
		}
	}
	resp, err := t.open(ctx, session, text, "", t.images...)
	if err != nil {
		hand(heard{err: err, end: true})
		return
	}
	defer resp.Body.Close()
	whole := false
	for e, err := range events(resp.Body) {
		if err != nil {
			hand(heard{err: errBroken(session, err), end: true})
			return
		}
		whole = e.last()
		if !hand(heard{event: e}) {
			return
		}
	}
	if !whole {
		err = errBroken(session, nil)
	}
	hand(heard{err: err, end: true})
}

// stop ends the turn; its stream says the rest.
func (cl *client) stop(ctx context.Context, session string) {
	_ = cl.call(ctx, http.MethodPost, sessionPath(session, "/stop"), map[string]string{"source": "cli"}, nil)
}

// left is what a person reads who did not wait for the end. The connection ends with it, and the turn with that.
func (t *talk) left() error {
	t.newline()
	if t.person || t.lines != nil && mutation.On("leaving-says-nothing") {
		return errLeft
	}
	return t.errStopped()
}

func (t *talk) errStopped() error {
	return &problem.Error{Kind: problem.Interrupted, Thing: "the answer", What: "was stopped", Fate: "what was said so far is stored in session " + t.session}
}

// finish ends the output of a turn. One that a person stopped is no failure of its own.
func (t *talk) finish(err error, stopped bool) error {
	t.newline()
	if stopped && err != nil && !problem.Is(err, problem.NotRunning) {
		return t.errStopped()
	}
	return err
}

func (t *talk) newline() {
	if t.prose.width > 0 && !t.json {
		t.prose.Row()
	} else if t.said != "" && !strings.HasSuffix(t.said, "\n") && !t.json {
		fmt.Fprintln(t.out)
	}
	t.said = ""
}

// show shows one event. The error is how the turn ended, if badly.
func (t *talk) show(e event) error {
	var h happening
	if json.Unmarshal(e.data, &h) != nil {
		return nil // of a newer daemon
	}
	switch e.name {
	case evDelta:
		if !t.json && !t.whole {
			t.said, t.shown = h.Text, true
			t.prose.Text(onTerminal(t.out, h.Text))
		}
	case evStarted:
		t.aside("%s running] %s", line(h.Tool), line(h.Label))
	case evFinished:
		status := "completed"
		if h.Failed {
			status = "failed"
		}
		t.aside("%s %s] ", line(h.Tool), status)
	case evNotice, evQueued:
		t.aside("%s]", line(h.Text))
	case evApproval:
		t.ask(h.Approval)
	case evCommand:
		return t.replied(e)
	case evEnded:
		return t.ended(e)
	case evError:
		return e.refusal()
	}
	return nil
}

// aside is a line beside the answer.
func (t *talk) aside(format string, args ...any) {
	if isTerminal(t.out) {
		t.newline()
	}
	fmt.Fprintln(t.err, strings.TrimRight("["+fmt.Sprintf(format, args...), " "))
}

// replied shows a command's answer.
func (t *talk) replied(e event) error {
	var reply commandReply
	if err := json.Unmarshal(e.data, &reply); err != nil {
		return err
	}
	if reply.Session != "" {
		t.session = reply.Session
	}
	if t.json {
		return jsonLine(t.out, json.RawMessage(e.data))
	}
	t.prose.Text(onTerminal(t.out, reply.Text) + "\n")
	return nil
}

// ended shows how a turn ended. One that failed is an error, however much of an answer there was.
func (t *talk) ended(e event) error {
	var end turnEnd
	if err := json.Unmarshal(e.data, &end); err != nil {
		return err
	}
	t.asked = nil
	if t.json {
		if err := jsonLine(t.out, json.RawMessage(e.data)); err != nil {
			return err
		}
	}
	switch {
	case end.Interrupted:
		return &problem.Error{Kind: problem.Interrupted, What: end.Text}
	case end.Failed && end.Error != "":
		return &problem.Error{Kind: problem.Unavailable, What: end.Error}
	case end.Failed:
		return &problem.Error{Kind: problem.Unavailable, What: end.Text}
	}
	if !t.shown && !t.json { // each piece of it was lost on the way
		t.said = end.Text
		t.prose.Text(onTerminal(t.out, end.Text))
	}
	return nil
}

// ask shows what a tool asks to do. Where nobody can answer, it says who can.
func (t *talk) ask(a *approval) {
	if a == nil {
		return
	}
	t.asked = append(t.asked, *a)
	t.aside("%s asks] %s", line(a.Tool), line(a.Effect))
	fmt.Fprintf(t.err, "    because: %s\n", line(a.Reason))
	if t.lines == nil {
		fmt.Fprintf(t.err, "    approve it with `gatewayd approvals approve %s` before %s; else it is denied\n", line(a.ID), line(a.Expires))
		return
	}
	fmt.Fprint(t.err, "    y, session, always or n? ")
}

// answers are the words by which a person decides, and what they mean.
var answers = map[string]string{"y": "once", "yes": "once", "once": "once", "session": "session", "always": "always", "n": "deny", "no": "deny", "deny": "deny"}

// beside takes a line that was typed while a turn runs.
func (t *talk) beside(ctx context.Context, text string) {
	decision, isAnswer := answers[strings.ToLower(strings.TrimSpace(text))]
	_, command, _ := slash.Parse(text)
	var err error
	switch {
	case strings.TrimSpace(text) == "":
	case len(t.asked) > 0 && isAnswer:
		err = t.decide(ctx, t.asked[0].ID, decision)
		t.asked = t.asked[1:]
	case command:
		var reply commandReply
		if reply, err = t.command(ctx, t.session, text); err == nil {
			t.session = reply.Session
			t.newline()
			fmt.Fprintln(t.err, onTerminal(t.err, reply.Text))
		}
	default:
		t.waiting = append(t.waiting, text)
		t.aside("waits] it is said when this turn has ended; /steer says it now, /stop ends the turn")
	}
	if err != nil {
		fmt.Fprintf(t.err, "gatewayd: %s\n", textOf(err))
	}
}

// decideBound is how long a decision may take to be heard.
const decideBound = 10 * time.Second

// decide answers what a tool asks.
func (cl *client) decide(ctx context.Context, id, decision string) error {
	ctx, cancel := context.WithTimeout(ctx, decideBound)
	defer cancel()
	return cl.call(ctx, http.MethodPost, "/api/approvals/"+id, map[string]string{"decision": decision, "by": "cli"}, nil)
}
