package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gatewayd/internal/terminal"
)

// turnSeen is what a person has seen of the turn that runs.
type turnSeen struct {
	id      string
	since   time.Time
	model   string
	text    string // of the answer since the last tool
	all     int    // bytes of the answer, all of it
	again   int    // bytes that come a second time after a connection was lost
	thinks  bool
	tools   []toolSeen
	seen    map[string]bool // calls whose end was shown
	unheard bool            // the daemon was started anew, and has not gone on with it yet
	joined  bool            // it had begun before we came
}

// toolSeen is a call that runs.
type toolSeen struct {
	id, name, label string
	since           time.Time
}

// happened is the data of an event, as far as a desk shows it.
type happened struct {
	happening
	Seq    int64   `json:"seq"`
	Turn   string  `json:"turn"`
	Life   string  `json:"life"`
	Result turnEnd `json:"result"`
}

// hear takes what the watch has heard.
func (d *desk) hear(ctx context.Context, h heard) {
	if h.end {
		d.watching.dropped()
		d.lost(h.err)
		return
	}
	var e happened
	if json.Unmarshal(h.event.data, &e) != nil {
		return // of a newer daemon
	}
	if h.event.name == evWatching {
		d.back(e, h.rows)
		d.watching.caughtUp()
		return
	}
	d.watching.seq = e.Seq
	if d.told[e.Turn] {
		return
	}
	if d.turn != nil || h.event.name == evTurn {
		d.happens(h.event.name, e)
	}
}

// happens shows one event of a turn.
func (d *desk) happens(name string, e happened) {
	switch name {
	case evTurn:
		d.begin(e)
	case evModel:
		_, d.turn.model, _ = strings.Cut(e.Text, "/") // behind its provider
	case evDelta:
		d.answer(e.Text)
	case evThought:
		d.think(e.Text)
	case evStarted:
		d.started(e)
	case evFinished:
		d.finished(e)
	case evNotice, evQueued:
		d.pause()
		d.printText(terminal.Dim, e.Text)
	case evSteered:
		d.pause()
		d.begun(e.Text, "said into the answer")
	case evApproval:
		d.asks(e.Approval)
	case evDecided:
		d.decided(e.Approval)
	case evEnded:
		d.ended(e.Result)
	}
}

// begin shows a turn that begins: with the message that it answers, unless that stands above already.
func (d *desk) begin(e happened) {
	if d.turn != nil && d.turn.id == e.Turn && !d.turn.unheard {
		return // seen before the connection was lost
	}
	joined := d.turn != nil && d.turn.id == e.Turn && d.turn.joined
	goesOn := d.last == e.Turn || d.turn != nil && d.turn.id == e.Turn && !joined
	d.turn = &turnSeen{id: e.Turn, since: time.Now(), seen: map[string]bool{}}
	d.stops, d.last = 0, e.Turn
	if joined && d.greeted == e.Turn {
		return
	}
	if goesOn {
		d.dim("the daemon has started again and goes on with the answer:")
		return
	}
	d.begun(e.Text, "")
}

// begun takes a message off those that wait, and shows it where it does not stand yet.
func (d *desk) begun(text, how string) {
	for _, m := range d.waiting {
		if m.text == text {
			d.forget(m.uid)
			if m.echoed {
				return
			}
			d.echo(text)
			if how != "" {
				d.dim(how)
			}
			return
		}
	}
	if how == "" {
		how = "said elsewhere"
	}
	d.echo(text)
	d.dim(how)
}

// answer adds to the answer.
func (d *desk) answer(piece string) {
	t := d.turn
	if n := min(t.again, len(piece)); n > 0 {
		piece, t.again = piece[n:], t.again-n
	}
	if piece == "" {
		return
	}
	if t.thinks {
		d.print(d.dimmed(d.aside.End())...)
		t.thinks = false
	}
	t.text += piece
	t.all += len(piece)
	if !d.taste.whole {
		d.print(d.prose.Write(text(piece))...)
	}
}

// think shows a piece of the model's reasoning to who wants to see it.
func (d *desk) think(piece string) {
	if !d.taste.reasoning || d.turn.again > 0 {
		d.turn.thinks = true
		return
	}
	d.turn.thinks = true
	d.print(d.dimmed(d.aside.Write(text(piece)))...)
}

// pause ends the piece of the answer that is being written: something else is to be shown.
func (d *desk) pause() {
	if t := d.turn; t != nil {
		if d.taste.whole {
			d.print(d.prose.Write(text(t.text))...)
		}
		if t.again == 0 {
			t.text = ""
		}
		t.thinks = false
	}
	d.print(d.dimmed(d.aside.End())...)
	d.print(d.prose.End()...)
}

func (d *desk) started(e happened) {
	for _, known := range d.turn.tools {
		if known.id == e.CallID {
			return
		}
	}
	if d.turn.seen[e.CallID] {
		return
	}
	d.pause()
	d.turn.tools = append(d.turn.tools, toolSeen{e.CallID, line(e.Tool), line(e.Label), time.Now()})
}

// finished shows a call on one line, with its outcome and how long it took.
func (d *desk) finished(e happened) {
	if d.turn.seen[e.CallID] {
		return
	}
	d.turn.seen[e.CallID] = true
	t := toolSeen{name: line(e.Tool), since: time.Now()}
	for i, running := range d.turn.tools {
		if running.id == e.CallID {
			t = running
			d.turn.tools = append(d.turn.tools[:i:i], d.turn.tools[i+1:]...)
			break
		}
	}
	d.pause()
	outcome, style := "ok", terminal.Dim
	if e.Failed {
		outcome, style = "failed", terminal.Bad
	}
	d.print(d.toolRow(t, d.palette.Paint(style, outcome+" "+took(time.Since(t.since)))))
}

// asks shows what a tool wants to do.
func (d *desk) asks(a *approval) {
	if a == nil {
		return
	}
	for _, known := range d.asked {
		if known.ID == a.ID {
			return
		}
	}
	d.asked = append(d.asked, *a)
	d.pause()
	d.print(d.palette.Paint(terminal.Ask, "? "+line(a.Tool)+" wants to do this:"))
	for row := range strings.Lines(text(a.Effect)) {
		d.printText(terminal.Plain, "    "+strings.TrimRight(row, "\n"))
	}
	d.printText(terminal.Dim, "  it asks because it "+line(a.Reason)+". Unanswered it is denied"+at(a.Expires)+".")
}

// at is the moment at which something happens by itself.
func at(stamp string) string {
	when, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return ""
	}
	return " at " + when.Local().Format(time.TimeOnly)
}

// decided shows what became of a question.
func (d *desk) decided(a *approval) {
	if a == nil {
		return
	}
	for i, asked := range d.asked {
		if asked.ID == a.ID {
			d.asked = append(d.asked[:i:i], d.asked[i+1:]...)
			break
		}
	}
	words := fmt.Sprintf("  %s (%s)", a.State, a.Decision)
	if a.By != "" && !strings.Contains(a.By, "cli") { // not here
		words += " by " + a.By
	}
	d.dim(words)
}

// ended shows how a turn ended, what it took, and makes room for the next.
func (d *desk) ended(end turnEnd) {
	t := d.turn
	d.shownUpTo(end.LastRow)
	if d.taste.whole && t.text == "" && t.all == 0 || t.all == 0 && end.Completed {
		t.text = end.Text // each piece of it was lost on the way
		d.print(d.prose.Write(text(strings.TrimSuffix(end.Text, "\n")))...)
		if d.taste.whole {
			t.text = ""
		}
	}
	d.pause()
	for _, tool := range t.tools {
		d.print(d.toolRow(tool, d.palette.Paint(terminal.Bad, "stopped "+took(time.Since(tool.since)))))
	}
	switch {
	case end.Failed && end.Error != "":
		d.printText(terminal.Bad, end.Error)
	case end.Failed, end.Interrupted:
		d.printText(terminal.Bad, lastWords(end.Text, t.all > 0))
	}
	d.dim(d.cost(t, end))
	d.print("")
	d.turn, d.asked, d.stops = nil, nil, 0
}

// lastWords are those that explain the end of an answer that broke off, without the answer.
func lastWords(text string, shown bool) string {
	if i := strings.LastIndex(text, "\n\n"); shown && i >= 0 {
		return text[i+2:]
	}
	return text
}

// cost is what a turn took, on one dim line.
func (d *desk) cost(t *turnSeen, end turnEnd) string {
	parts := []string{took(time.Since(t.since))}
	if u := end.Usage; u.Prompt+u.Completion > 0 {
		parts = append(parts, fmt.Sprintf("%s tokens in, %s out", thousands(u.Prompt), thousands(u.Completion)))
	}
	if t.model != "" {
		parts = append(parts, line(t.model))
	}
	return strings.Join(parts, " · ")
}

// took is a time as a person reads it.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
}

// thousands is a number that is read at a glance.
func thousands(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
