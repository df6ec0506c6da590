package gateway

import (
	"context"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// rowsTimeout bounds the reading of a turn's rows for a watcher.
const rowsTimeout = 10 * time.Second

// slim leaves texts to the rows that hold them. A tool's event is told after its row was stored, and the words before a call were stored
// with the call, so all of that can be read again: only the words of the answer that is still being made stay. The order and the
// numbers of the events stay; the pieces of one answer become one.
func (f *feed) slim() {
	call, told := "", map[string]bool{}
	kept := make([]Event, 0, len(f.ring))
	for i := len(f.ring) - 1; i >= 0; i-- {
		e := f.ring[i]
		switch {
		case e.Kind == EventToolStarted || e.Kind == EventToolFinished:
			call = e.CallID
			e.from, e.Text = call, ""
		case call != "" && (e.Kind == EventDelta || e.Kind == EventReasoning):
			e.from, e.Text = call, ""
			if told[string(e.Kind)+call] {
				continue
			}
			told[string(e.Kind)+call] = true
		}
		kept = append(kept, e)
	}
	f.ring, f.bytes = f.ring[:0], 0
	for i := len(kept) - 1; i >= 0; i-- {
		f.ring = append(f.ring, kept[i])
		f.bytes += len(kept[i].Text)
	}
	f.most = max(ringBytes, 2*f.bytes)
}

// whole gives a reader the texts of events that are kept without them. The rows are read when the first one comes, by the reader's own
// goroutine: neither the turn nor other watchers wait for that.
func (g *Gateway) whole(session string, read func(Event)) func(Event) {
	if read == nil {
		return nil
	}
	var turn string
	var texts turnTexts
	spoke := false
	return func(e Event) {
		if e.from == "" || mutation.On("long-turns-are-told-without-texts") {
			read(e)
			return
		}
		if turn != e.Turn {
			turn, texts, spoke = e.Turn, g.textsOf(session, e.Turn), false
		}
		e.Text = texts.of(e)
		if e.Kind == EventDelta && spoke {
			e.Text = joinAnswer + e.Text
		}
		spoke = spoke || e.Kind == EventDelta
		e.from = ""
		read(e)
	}
}

// turnTexts are what the rows of a turn say, by the ids of its calls.
type turnTexts struct {
	said, reasoned, asked, told map[string]string
	err                         error
}

func (g *Gateway) textsOf(session, turn string) turnTexts {
	ctx, cancel := context.WithTimeout(context.Background(), rowsTimeout)
	defer cancel()
	t := turnTexts{said: map[string]string{}, reasoned: map[string]string{}, asked: map[string]string{}, told: map[string]string{}}
	var rows []sessiondb.Message
	if rows, t.err = g.opts.Store.TurnRows(ctx, session, turn); t.err != nil {
		g.log.Warn("the beginning of a turn is not told", "session", session, "turn", turn, "error", t.err)
	}
	for _, row := range rows {
		if row.Role == roleTool {
			t.told[row.ToolCallID] = row.Content
		}
		for _, call := range storedCalls(row) {
			t.said[call.ID], t.reasoned[call.ID], t.asked[call.ID] = row.Content, row.Reasoning, call.Function.Arguments
			if call.Said != "" {
				t.asked[call.ID] = call.Said
			}
		}
	}
	return t
}

func (t turnTexts) of(e Event) string {
	if t.err != nil {
		return "[not read: " + t.err.Error() + "]"
	}
	switch e.Kind {
	case EventDelta:
		return t.said[e.from]
	case EventReasoning:
		return t.reasoned[e.from]
	case EventToolStarted:
		return t.asked[e.from]
	}
	return t.told[e.from]
}
