package kanban

import "context"

// ModelChoice is the model that a card's worker uses. Nil leaves a field alone, "" clears it.
type ModelChoice struct{ Model, Provider, Reasoning *string }

const setModel = `UPDATE tasks SET model_override = ?, provider_override = ?, reasoning_effort = ? WHERE id = ?`

// SetModel changes it, for the next attempt. A provider needs a model: clearing the model clears a provider that is not
// named.
func (b *Board) SetModel(ctx context.Context, task string, m ModelChoice) error {
	if m == (ModelChoice{}) {
		return invalid("the model of "+cardThing(task), "is not chosen", "name a model, a provider or a reasoning effort")
	}
	return b.write(ctx, "set model", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		return t.chooseModel(card, m)
	})
}

func (t *txn) chooseModel(card Task, m ModelChoice) error {
	m = ModelChoice{Model: trimmed(m.Model), Provider: trimmed(m.Provider), Reasoning: trimmed(m.Reasoning)}
	after, err := m.apply(card)
	if err != nil {
		return err
	}
	return t.setModel(card, after)
}

func (m ModelChoice) apply(card Task) (Task, error) {
	if m.Model != nil && *m.Model == "" && m.Provider == nil {
		m.Provider = m.Model
	}
	for _, f := range []struct{ to, at *string }{{m.Model, &card.ModelOverride}, {m.Provider, &card.ProviderOverride}, {m.Reasoning, &card.ReasoningEffort}} {
		if f.to != nil {
			*f.at = *f.to
		}
	}
	return card, checkModel(card.ModelOverride, card.ProviderOverride, card.ReasoningEffort)
}

func (t *txn) setModel(card, after Task) error {
	model := card.ModelOverride != after.ModelOverride || card.ProviderOverride != after.ProviderOverride
	reasoning := card.ReasoningEffort != after.ReasoningEffort
	if !model && !reasoning {
		return nil
	}
	if err := t.must("set model", setModel, opt(after.ModelOverride), opt(after.ProviderOverride), opt(after.ReasoningEffort), card.ID); err != nil {
		return err
	}
	if model {
		p := payload{{"model", opt(after.ModelOverride)}, {"provider", opt(after.ProviderOverride)}}
		if err := t.event(card.ID, 0, "model_override_set", p); err != nil || !reasoning {
			return err
		}
	}
	return t.event(card.ID, 0, "reasoning_effort_set", payload{{"reasoning_effort", opt(after.ReasoningEffort)}})
}
