package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/terminal"
)

// storedRow is a row of a conversation, as far as a desk shows it.
type storedRow struct {
	ID           int64  `json:"id"`
	UID          string `json:"uid"`
	TurnID       string `json:"turn_id"`
	Role         string `json:"role"`
	Content      string `json:"content"`
	Kind         string `json:"kind"`
	FinishReason string `json:"finish_reason"`
	ToolCalls    []any  `json:"tool_calls"`
}

// answers reports that a row ends its turn.
func (r storedRow) answers() bool {
	return r.Role == "assistant" && len(r.ToolCalls) == 0 && r.Kind != "checkpoint"
}

// newestRow is the id of the last of the rows, and at least that one.
func newestRow(rows []storedRow, least int64) int64 {
	for _, row := range rows {
		least = max(least, row.ID)
	}
	return least
}

// stored reads the newest rows of a conversation.
func (d *desk) stored(ctx context.Context, session string) ([]storedRow, error) {
	return ask(d, func(cl *client) ([]storedRow, error) { return cl.rows(ctx, session, "latest=true&limit=200") })
}

// storedAfter reads the rows behind one, all of them; only the newest row where it is not known which was shown.
func (cl *client) storedAfter(ctx context.Context, session string, after int64) ([]storedRow, error) {
	if after == unknown {
		return cl.rows(ctx, session, "latest=true&limit=1")
	}
	return cl.rows(ctx, session, fmt.Sprintf("after=%d&limit=1000000&include_compacted=true", after))
}

func (cl *client) rows(ctx context.Context, session, query string) ([]storedRow, error) {
	var answer struct{ Messages []storedRow }
	err := cl.call(ctx, http.MethodGet, sessionPath(session, "/messages?"+query), nil, &answer)
	return answer.Messages, err
}

// lastExchange is the last message of a person with its answer.
func lastExchange(rows []storedRow) (out []storedRow) {
	for i := len(rows) - 1; i >= 0; i-- {
		row := rows[i]
		if row.Content != "" && (row.Role == "user" || row.answers() && len(out) == 0) {
			out = append([]storedRow{row}, out...)
		}
		if row.Role == "user" {
			break
		}
	}
	return out
}

// back goes on with a conversation after the watch has begun, or begun again, with the rows that nobody has shown yet. What ended
// meanwhile is shown first, from the rows. Of a turn that runs on, what is told anew is what was seen already; where the daemon is
// another process, the answer begins anew.
func (d *desk) back(e happened, rows []storedRow) {
	d.away = nil
	w, t := d.watching, d.turn
	same := w.life == e.Life && e.Seq >= w.seq && w.seq > 0
	another := w.life != e.Life
	w.life, w.seq = e.Life, e.Seq
	switch {
	case t == nil:
	case t.id == e.Turn && same:
		t.again = t.all // the same process tells the turn from its beginning
		return
	case d.goesOnAsStored(rows):
	default:
		d.cutOff(another)
	}
	if !mutation.On("what-was-missed-is-not-read") {
		d.settle(rows, e.Turn)
	}
	if d.turn == nil && e.Turn != "" {
		d.turn = &turnSeen{id: e.Turn, since: time.Now(), seen: map[string]bool{}, unheard: true, joined: true}
	}
}

// cutOff says that an answer broke off, which begins anew or is in the rows.
func (d *desk) cutOff(another bool) {
	t := d.turn
	if t.unheard {
		return
	}
	d.pause()
	t.unheard, t.tools, t.text, t.all, t.again = true, nil, "", 0, 0
	if another {
		d.dim("the daemon was started anew in the middle of this answer")
	} else {
		d.dim("the connection was lost in the middle of this answer")
	}
}

// goesOnAsStored shows the rest of the turn that was seen in part, where its answer in the rows begins with that part.
func (d *desk) goesOnAsStored(rows []storedRow) bool {
	t := d.turn
	end, ok := endOf(rows, t.id)
	rest, begins := strings.CutPrefix(end.Content, t.text)
	if !ok || !begins || t.text == "" {
		return false
	}
	if d.taste.whole {
		rest = end.Content
	}
	d.print(d.dimmed(d.aside.End())...)
	d.printEnd(end, rest)
	return true
}

// look is what is done once a second: a turn that nobody goes on with is looked up.
func (d *desk) look(ctx context.Context) {
	if d.turn != nil && d.turn.unheard && d.away == nil {
		d.readRows(ctx)
	}
}

// readRows looks up in the rows what became of the turn that is waited for, and of messages that were sent more than once.
func (d *desk) readRows(ctx context.Context) {
	w, session := d.watching, d.session
	if w == nil {
		return
	}
	go func() {
		rows, err := ask(d, func(cl *client) ([]storedRow, error) { return cl.storedAfter(ctx, session, w.upTo.Load()) })
		d.later(ctx, func() {
			if err == nil && w == d.watching && (d.turn == nil || d.turn.unheard) {
				d.settle(rows, "")
			}
		})
	}()
}

// settle shows from the rows, in their order, the turns that have ended and were not shown, up to the one that runs: that one is told.
func (d *desk) settle(rows []storedRow, running string) {
	if d.watching.upTo.Load() == unknown {
		d.watching.upTo.Store(newestRow(rows, 0))
		return
	}
	for _, row := range rows {
		if running != "" && row.TurnID == running {
			return
		}
		if end, ok := endOf(rows, row.TurnID); ok && row.ID == end.ID && row.ID > d.watching.upTo.Load() {
			d.fromRows(rows, end)
		}
	}
}

// endOf is the row that ends a turn.
func endOf(rows []storedRow, turn string) (end storedRow, ok bool) {
	for _, row := range rows {
		if turn != "" && row.TurnID == turn && row.answers() && row.Content != "" {
			end, ok = row, true
		}
	}
	return end, ok
}

// fromRows shows a turn as it is stored: what was said, as far as it does not stand above, and the end.
func (d *desk) fromRows(rows []storedRow, end storedRow) {
	for _, row := range rows {
		if row.TurnID == end.TurnID && row.Role == "user" && row.Kind == "" {
			d.saidInRow(row)
		}
	}
	d.printEnd(end, end.Content)
}

// saidInRow takes a stored message off those that wait, and shows it where it does not stand yet.
func (d *desk) saidInRow(row storedRow) {
	for _, m := range d.waiting {
		if m.uid == row.UID {
			d.forget(m.uid)
			if !m.echoed {
				d.echo(m.text)
			}
			return
		}
	}
	if row.TurnID == d.last || row.TurnID == d.greeted { // its turn was seen to begin
		return
	}
	d.echo(row.Content)
	d.dim("said elsewhere")
}

// printEnd shows what is left of a turn's end. Its events, where they come yet, tell nothing more, unless it can be gone on with.
func (d *desk) printEnd(end storedRow, rest string) {
	d.print(d.prose.Write(text(rest))...)
	d.print(d.prose.End()...)
	d.printText(terminal.Dim, fmt.Sprintf("as it is stored in session %s", d.session))
	d.print("")
	d.shownUpTo(end.ID)
	if end.FinishReason != "interrupted" {
		if d.told == nil {
			d.told = map[string]bool{}
		}
		d.told[end.TurnID] = true
	}
	if d.turn != nil && d.turn.id == end.TurnID {
		d.turn, d.asked, d.stops = nil, nil, 0
	}
}

// shownUpTo says that everything up to a row was shown.
func (d *desk) shownUpTo(row int64) {
	w := d.watching
	w.upTo.Store(max(w.upTo.Load(), row))
}
