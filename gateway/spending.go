package gateway

import (
	"cmp"

	"gatewayd/gateway/provider"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// spend counts what an answer cost. It is stored with the answer's row, in one transaction; see bill.
func (t *turn) spend(answer provider.Response, request *sessiondb.Asked) {
	u := answer.Usage
	t.result.Usage.Prompt += u.Prompt
	t.result.Usage.Completion += u.Completion
	t.result.Usage.Cached += u.Cached
	t.result.Usage.Reasoning += u.Reasoning
	about := t.model.Describe()
	model, by := cmp.Or(answer.Model, about.Name), cmp.Or(answer.Provider, about.Provider) // a fallback may have answered
	if request != nil {
		request.Model, request.Provider, request.Prompt, request.Completion = model, by, u.Prompt, u.Completion
	}
	t.unpaid = &sessiondb.UsageDelta{
		Session: t.session.ID, Model: model, Provider: by,
		Counts:  sessiondb.Counts{Calls: 1, Prompt: u.Prompt, Completion: u.Completion, Cached: u.Cached, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning},
		Request: request,
	}
}

// bill puts the cost of the last answer on the first row that the model said, and reports whether there was one.
func (t *turn) bill(rows []sessiondb.NewMessage) bool {
	for i := range rows {
		if rows[i].Role == roleAssistant && t.unpaid != nil && !mutation.On("cost-beside-its-row") {
			rows[i].Spent = t.unpaid
			return true
		}
	}
	return false
}

// settle stores what was spent on an answer that no row was stored of.
func (t *turn) settle() {
	d := t.unpaid
	if d == nil {
		return
	}
	t.unpaid = nil
	if mutation.On("empty-answers-are-free") {
		return
	}
	ctx, cancel := t.writing()
	defer cancel()
	if err := t.g.opts.Store.AddUsage(ctx, *d); err != nil {
		t.log.Warn("usage not stored", "error", err, "prompt", d.Prompt, "completion", d.Completion)
	}
}
