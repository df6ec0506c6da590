package runs

import (
	"context"
	"encoding/json"
	"strings"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// end is how a run ended, from what its turn gave or from its rows.
type end struct {
	status string
	output string
	reason string // why there is no answer; empty for an answer
	exit   string
	finish string
	row    int64
	turn   string

	receipt string
	usage   *provider.Usage // nil: the process that counted it is gone
}

// endOf is the table from the result of a turn to the end of its run.
func endOf(r gateway.Result) end {
	e := end{output: r.Text, exit: r.ExitReason, finish: r.FinishReason, row: r.LastRow, turn: r.TurnID, usage: &r.Usage, status: sessiondb.RunFailed}
	if r.Digest != "" {
		e.receipt = sessiondb.Receipt{Session: r.Session, Turn: r.TurnID, Row: r.LastRow, Digest: r.Digest}.String()
	}
	switch {
	case r.Completed:
		e.status = sessiondb.RunCompleted
		return e
	case r.ExitReason == "interrupted(stop)", r.ExitReason == "interrupted(redirect)":
		e.status = sessiondb.RunCancelled
	case r.ExitReason == "interrupted(drain)", r.ExitReason == "interrupted(lease_lost)":
		e.status = sessiondb.RunInterrupted
	}
	if e.reason = r.Text; r.Error != nil {
		e.reason = r.Error.Error()
	}
	if e.reason == "" {
		e.reason = "the turn ended without a word"
	}
	return e
}

// endOfRows is endOf for a turn that ended in another process: its last row tells.
func endOfRows(rows []sessiondb.Message) end {
	e := end{status: sessiondb.RunInterrupted, reason: "gatewayd ended before there was an answer"}
	for _, m := range rows {
		e.turn = m.TurnID
		if m.Role == "assistant" && len(m.ToolCalls) == 0 {
			e.output, e.finish, e.row = m.Content, m.FinishReason, m.ID
		}
	}
	if len(rows) == 0 {
		e.reason = "its message was withdrawn, or gatewayd ended before it was accepted"
		return e
	}
	switch e.finish {
	case "stop", "length", "content_filter":
		e.status, e.reason = sessiondb.RunCompleted, ""
	case "", "interrupted":
		e.reason = orWords(e.output, e.reason)
	default:
		e.status, e.reason = sessiondb.RunFailed, orWords(e.output, e.reason)
	}
	return e
}

// EndOf tells from the rows of a turn how its run ended, and why there is no answer where there is none.
func EndOf(rows []sessiondb.Message) (status, reason string) {
	e := endOfRows(rows)
	return e.status, e.reason
}

func orWords(text, otherwise string) string {
	if strings.TrimSpace(text) == "" {
		return otherwise
	}
	return text
}

// about is what both the run and its last event tell.
func (e end) about() map[string]any {
	body := map[string]any{"output": e.output, "turn_id": e.turn, "last_row": e.row, "finish_reason": e.finish}
	if e.exit != "" {
		body["exit_reason"] = e.exit
	}
	if e.receipt != "" {
		body["receipt"] = e.receipt
	}
	if e.usage != nil {
		body["usage"] = map[string]any{
			"input_tokens": e.usage.Prompt, "output_tokens": e.usage.Completion, "total_tokens": e.usage.Prompt + e.usage.Completion,
			"input_tokens_details": map[string]any{"cached_tokens": e.usage.Cached}, "output_tokens_details": map[string]any{"reasoning_tokens": e.usage.Reasoning},
		}
	}
	return body
}

func (e end) result() json.RawMessage {
	raw, err := json.Marshal(e.about())
	if err != nil {
		return json.RawMessage(`{}`) // texts and numbers always marshal
	}
	return raw
}

func (e end) body() map[string]any {
	body := e.about()
	if body["status"] = e.status; e.reason != "" {
		body["error"] = e.reason
	}
	return body
}

// place is where the message of a run is.
type place struct {
	waits bool   // accepted, and its turn has not begun
	turn  string // under way, or to be gone on with
}

func (f *follower) place(ctx context.Context) (p place, err error) {
	waiting, err := f.desk.opts.Store.Inbox(ctx, f.run.Session)
	if err != nil {
		return p, err
	}
	for _, w := range waiting {
		p.waits = p.waits || w.UID == f.run.UID
	}
	pendings, err := f.desk.opts.Store.Pendings(ctx)
	for _, one := range pendings {
		if one.UserUID == f.run.UID {
			p.turn = one.Turn
		}
	}
	return p, err
}

// look asks the store where the run is, and ends one whose turn has ended without telling: it did in another process, or its message
// was withdrawn. Of a turn of this process that is believed when it was found twice, because its end may be on its way.
func (f *follower) look(believe bool) {
	f.serial.Lock()
	defer f.serial.Unlock()
	ctx := context.WithoutCancel(f.life)
	p, err := f.place(ctx)
	if err != nil || f.over || !f.accepted.Load() {
		return
	}
	if f.turn == "" {
		f.turn = p.turn
	}
	if f.silent++; p.waits || p.turn != "" {
		f.silent = 0
	}
	if f.silent == 0 || f.silent == 1 && !believe {
		return
	}
	rows, err := f.desk.opts.Store.TurnOf(ctx, f.run.UID)
	if err != nil {
		return
	}
	e := endOfRows(rows)
	if f.status() == sessiondb.RunStopping && e.status == sessiondb.RunInterrupted {
		e.status = sessiondb.RunCancelled
	}
	f.finish(e)
}
