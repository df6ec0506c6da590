package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"gatewayd/internal/problem"
	"gatewayd/internal/terminal"
)

// draw shows what was printed since the last time and, below it, what is going on.
func (d *desk) draw() {
	prompt := "> "
	if len(d.asked) > 0 {
		prompt = "y, session, always or n? "
	}
	f := terminal.Frame{Above: d.printed, Rows: d.below(), Prompt: d.palette.Paint(terminal.Bold, prompt), Busy: d.turn != nil}
	if len(f.Above) == 0 && f.Prompt == d.shown.Prompt && f.Busy == d.shown.Busy && slices.Equal(f.Rows, d.shown.Rows) {
		return
	}
	d.term.Show(f)
	d.printed, d.shown = nil, f
}

// below are the rows between what stays and the line that is edited.
func (d *desk) below() (rows []string) {
	if row := d.aside.Rest(); row != "" {
		rows = append(rows, d.palette.Paint(terminal.Dim, row))
	}
	if row := d.prose.Rest(); row != "" {
		rows = append(rows, row)
	}
	if d.turn != nil {
		for _, t := range d.turn.tools {
			rows = append(rows, d.toolRow(t, d.palette.Paint(terminal.Dim, sinceWords(t.since))))
		}
	}
	for _, m := range d.waiting {
		if !m.echoed {
			rows = append(rows, d.palette.Paint(terminal.Dim, "waits: "+short(m.text)))
		}
	}
	if state := d.state(); state != "" {
		rows = append(rows, d.palette.Paint(terminal.Dim, state))
	}
	return rows
}

// state is what is going on, in one line; nothing while nothing is.
func (d *desk) state() string {
	switch {
	case d.away != nil:
		return d.away.words(len(d.waiting))
	case d.turn == nil && len(d.waiting) > 0:
		return "sent"
	case d.turn == nil:
		return ""
	case d.stops > 0:
		return "is being stopped; Ctrl-C again leaves"
	case len(d.asked) > 0:
		return "waits for you"
	}
	doing := "answers"
	switch {
	case len(d.turn.tools) > 0:
		doing = "works"
	case d.turn.text == "" || d.turn.thinks:
		doing = "thinks"
	}
	return fmt.Sprintf("%s %s· Ctrl-C stops", doing, sinceWords(d.turn.since))
}

// sinceWords is how long something takes already, once that is worth telling.
func sinceWords(since time.Time) string {
	if d := time.Since(since).Truncate(time.Second); d > 0 {
		return took(d.Round(time.Second)) + " "
	}
	return ""
}

// toolRow is a call on one row: its name, what it is called with, and an outcome at the end.
func (d *desk) toolRow(t toolSeen, outcome string) string {
	room := d.prose.Width - 6 - ansi.StringWidth(t.name) - ansi.StringWidth(outcome)
	return "  " + d.palette.Paint(terminal.Accent, t.name) + "  " + ansi.Truncate(t.label, max(0, room), "…") + "  " + outcome
}

// print puts rows above.
func (d *desk) print(rows ...string) { d.printed = append(d.printed, rows...) }

// printText prints foreign or long text, broken at the terminal's end.
func (d *desk) printText(style terminal.Style, s string) {
	for _, row := range strings.Split(ansi.Wrap(text(strings.TrimRight(s, "\n")), d.prose.Width-1, " "), "\n") {
		d.print(d.palette.Paint(style, row))
	}
}

func (d *desk) dim(s string) { d.printText(terminal.Dim, s) }

func (d *desk) dimmed(rows []string) []string {
	for i := range rows {
		rows[i] = d.palette.Paint(terminal.Dim, rows[i])
	}
	return rows
}

// echoRows is how much of a message is shown again above its answer.
const echoRows = 6

// echo shows what was said.
func (d *desk) echo(said string) {
	lines := strings.Split(text(strings.TrimSpace(said)), "\n")
	for i, l := range lines {
		if i == echoRows && len(lines) > echoRows+1 {
			d.dim(fmt.Sprintf("  and %d more lines", len(lines)-i))
			break
		}
		before := "> "
		if i > 0 {
			before = "  "
		}
		d.printText(terminal.Bold, before+l)
	}
}

// trouble shows what went wrong.
func (d *desk) trouble(err error) { d.printText(terminal.Bad, "gatewayd: "+textOf(err)) }

// greet says where the person is, and, of a conversation that goes on, what was said last.
func (d *desk) greet(ctx context.Context, begun bool) {
	d.dim(fmt.Sprintf("conversation %s · /help lists commands · Ctrl-D leaves", line(d.session)))
	if !begun {
		d.print("")
		return
	}
	upTo := int64(unknown)
	rows, err := d.stored(ctx, d.session)
	if err != nil {
		d.trouble(err)
	} else {
		upTo = newestRow(rows, 0)
	}
	d.watch(ctx, upTo)
	for _, row := range lastExchange(rows) {
		if row.Role == "user" {
			d.greeted = row.TurnID
			d.echo(row.Content)
			continue
		}
		d.print(d.prose.Write(text(row.Content))...)
		d.print(d.prose.End()...)
	}
	d.print("")
}

// gone reports that an error means that the daemon is not there, or not yet.
func gone(err error) bool {
	return problem.Is(err, problem.NotRunning) || problem.Is(err, problem.Unavailable) && !errors.Is(err, context.Canceled)
}
