package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

const kindHistory = "history" // a row the client told us of when it began the conversation

// open makes the transcript fit to be continued and stores the user row (P1), before the model hears anything.
func (t *turn) open() error {
	t.enter("open")
	store := t.g.opts.Store
	if t.session.EndedAt != nil {
		if _, err := store.ReopenIfExplicitlyClosed(t.ctx, t.lease, t.say.Source); err != nil {
			return t.notOpened(err)
		}
	}
	if err := t.chooseModel(); err != nil {
		return t.notOpened(err)
	}
	if err := t.fixTools(); err != nil {
		return t.notOpened(err)
	}
	if err := t.recallWishes(); err != nil {
		return t.notOpened(err)
	}
	t.room = tool.NewRoom(t.g.roomOf(t.ctx, t.model), t.g.opts.Spill)
	if t.say.pending != nil {
		return t.reopen()
	}
	if t.say.Continue {
		return t.goOnward()
	}
	rows, fixed, err := t.g.mend(t.ctx, t.lease)
	if err != nil {
		return t.notOpened(err)
	}
	if !fixed.empty() {
		t.log.Warn("transcript repaired before the turn", "outcome", fixed.recovered(t.session.ID).Outcome)
	}
	t.rows = rows
	if t.system, err = t.prompt(); err != nil {
		return t.notOpened(err)
	}
	if t.say.UID == "" {
		t.say.UID = sessiondb.NewUID()
	}
	batch := []sessiondb.NewMessage{{UID: t.say.UID, Role: roleUser, Content: t.say.Text, Wire: t.say.Wire}}
	if t.say.told != nil {
		batch = []sessiondb.NewMessage{t.say.told.row()}
	}
	if len(rows) == 0 {
		batch = append(historyRows(t.say.History), batch...)
	}
	if t.ctx.Err() != nil {
		return errLeftEarly(context.Cause(t.ctx))
	}
	if told := t.say.told; told != nil && !told.Wake {
		return explained(t.append(batch...), "session "+t.session.ID)
	}
	if mutation.On("user-row-is-not-stored") {
		t.take([]sessiondb.Message{{ID: 1 << 60, Role: roleUser, Content: t.say.Text}})
		return nil
	}
	return explained(t.begin(batch[len(batch)-1].UID, batch...), "session "+t.session.ID)
}

// chooseModel takes the model that the session's settings name, or the configured one.
// A name that leads nowhere any more is told, and costs the choice and not the turn.
func (t *turn) chooseModel() error {
	if t.tuned.Models == nil {
		return nil
	}
	settings, err := t.g.opts.Store.TakeModel(t.ctx, t.session.ID)
	if err != nil || settings.Model == "" {
		return err
	}
	chosen, err := t.tuned.Models(settings.Model)
	if err != nil {
		t.sink.put(Event{Kind: EventNotice, Text: "The model " + settings.Model + " that was chosen here cannot be used, so the configured one answers: " + err.Error()})
		return nil
	}
	t.model = chosen
	t.answers.Store(modelLabel(chosen))
	return nil
}

// modelOf is the model that would answer the next message of a session, as far as that can be known now.
func (g *Gateway) modelOf(ctx context.Context, session string) provider.Model {
	tuned := g.tuned()
	if tuned.Models == nil {
		return tuned.Model
	}
	settings, err := g.opts.Store.Settings(ctx, session)
	name := cmp.Or(settings.Once, settings.Model)
	if err != nil || name == "" {
		return tuned.Model
	}
	if chosen, err := tuned.Models(name); err == nil {
		return chosen
	}
	return tuned.Model
}

// modelLabel is how people are told which model answers.
func modelLabel(m provider.Model) string {
	about := m.Describe()
	name := cmp.Or(about.Name, "not named")
	if about.Provider == "" {
		return name
	}
	return about.Provider + "/" + name
}

func (t *turn) notOpened(err error) error {
	if t.ctx.Err() != nil {
		return errLeftEarly(context.Cause(t.ctx))
	}
	return t.g.refused(err, "session "+t.session.ID)
}

// prompt is the session's own system prompt, byte for byte. A session without one (an imported one) gets the configured one.
func (t *turn) prompt() (string, error) {
	if t.session.PromptHash == "" {
		return t.g.opts.SystemPrompt, nil
	}
	prompt, err := t.g.opts.Store.Prompt(t.ctx, t.session.PromptHash)
	if err == nil && prompt == "" {
		t.log.Warn("system prompt missing, the configured one is used", "hash", t.session.PromptHash)
		return t.g.opts.SystemPrompt, nil
	}
	if mutation.On("prompt-tells-the-time") {
		prompt += t.started.String()
	}
	return prompt, err
}

// HistoryRows are the rows of a session that begins with what a client told. A history that ends before an answer gets the sentence that a
// request would carry in its place, so that nobody takes it for a turn that was cut off.
func HistoryRows(history []provider.Message) []sessiondb.NewMessage {
	rows := historyRows(history)
	if n := len(rows); n > 0 && (rows[n-1].Role != roleAssistant || len(rows[n-1].ToolCalls) > 0) {
		rows = append(rows, sessiondb.NewMessage{Role: roleAssistant, Content: gapAnswer, Kind: kindHistory})
	}
	return rows
}

// historyRows turns what a client told into rows. System messages are not rows: the prompt is the session's.
func historyRows(history []provider.Message) []sessiondb.NewMessage {
	var rows []sessiondb.NewMessage
	for _, m := range history {
		row := sessiondb.NewMessage{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID, ToolName: m.Name, Kind: kindHistory}
		switch m.Role {
		case roleUser:
			foreignImages(&row, m)
		case roleTool:
		case roleAssistant:
			row.ToolCalls = foreignCalls(m.ToolCalls)
		default:
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

func foreignCalls(calls []provider.ToolCall) json.RawMessage {
	if len(calls) == 0 {
		return nil
	}
	stored := make([]storedCall, 0, len(calls))
	for _, call := range calls {
		stored = append(stored, storeCall(call, intentNone))
	}
	return marshalCalls(stored)
}

// mend reads a transcript and writes what is missing at its tail, once, by compare-and-swap. It gives the rows as they are
// afterwards. It is called under the turn lease only, so whoever worked on an unfinished turn is gone.
func (g *Gateway) mend(ctx context.Context, l sessiondb.Lease) ([]sessiondb.Message, repair, error) {
	return g.closeOff(ctx, l, "")
}

// closeOff is mend with other words for the closing row.
func (g *Gateway) closeOff(ctx context.Context, l sessiondb.Lease, words string) ([]sessiondb.Message, repair, error) {
	for {
		rows, err := g.opts.Store.Transcript(ctx, l.Session)
		if err != nil {
			return nil, repair{}, fmt.Errorf("read transcript: %w", err)
		}
		r := planClosing(rows, words, time.Now())
		if r.empty() {
			return rows, r, nil
		}
		r.refuse(g.opts.Approvals.refused(ctx, l.Session, r.turn))
		err = g.opts.Store.Repair(ctx, l, r.changes())
		if errors.Is(err, sessiondb.ErrRowChanged) && ctx.Err() == nil {
			continue // somebody edited the row meanwhile; decide anew from what is there
		}
		if err != nil {
			return nil, r, fmt.Errorf("repair transcript: %w", err)
		}
		rows, err = g.opts.Store.Transcript(ctx, l.Session)
		return rows, r, err
	}
}

func (r *repair) changes() []sessiondb.RowRepair {
	var out []sessiondb.RowRepair
	for _, row := range r.supersede {
		out = append(out, sessiondb.RowRepair{ID: row.ID, OldDigest: row.Digest(), Drop: true})
	}
	if r.withdraw != nil {
		wire := withdrawn
		out = append(out, sessiondb.RowRepair{ID: r.withdraw.ID, OldDigest: r.withdraw.Digest(), Wire: &wire})
	}
	for i := range r.insert {
		out = append(out, sessiondb.RowRepair{Insert: &r.insert[i]})
	}
	return out
}
