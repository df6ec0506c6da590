package kanban

import "slices"

// fulfil takes a card from a run whose worker is gone, as a request says: a fresh start, in the place and with the
// assignee that the person wanted. how tells how the worker ended.
func (t *txn) fulfil(card Task, s Stop, how map[string]any) (Status, error) {
	source, err := sourceStatus(t.Conn, card.CurrentRunID)
	if err != nil {
		return "", err
	}
	to, err := t.landing(card, s, source)
	if err != nil {
		return "", err
	}
	if err := t.place(card, to, freshStart); err != nil {
		return "", err
	}
	if _, err := t.run("close run", closeRun, OutcomeReclaimed, OutcomeReclaimed, t.now, nil, nil, opt(cut(s.Reason, maxError)), int64(card.CurrentRunID)); err != nil {
		return "", err
	}
	if err := t.afterRun(card.ID, card.CurrentRunID); err != nil {
		return "", err
	}
	p := payload{{"manual", true}, {"reason", opt(s.Reason)}, {"prev_lock", opt(card.ClaimLock)}}.say("actor", s.Actor)
	if source == StatusReview && s.To == "" {
		p = append(p, field{"retry_status", StatusReview})
	}
	if err := t.event(card.ID, card.CurrentRunID, EventReclaimed, p.with(how)); err != nil {
		return "", err
	}
	return t.settleIn(card, s, source)
}

// landing is where the card goes: a card that waits for a parent is not ready, whatever was wanted.
func (t *txn) landing(card Task, s Stop, source Status) (Status, error) {
	to := s.To
	if to == "" {
		to = source
	}
	if to != StatusReady && to != StatusReview {
		return to, nil
	}
	open, err := openParents(t.Conn, card.ID)
	if err == nil && len(open) > 0 {
		to = StatusTodo
	}
	return to, err
}

// settleIn says where the card is now and whose it is, where that is not what it was before the claim.
func (t *txn) settleIn(card Task, s Stop, source Status) (Status, error) {
	now, err := loadTask(t.Conn, card.ID)
	if err != nil {
		return "", err
	}
	heir := s.Assignee
	if heir == "" && source == StatusReview && slices.Contains([]Status{StatusTriage, StatusTodo, StatusReady}, s.To) {
		if heir, err = t.implementer(now); err != nil {
			return "", err
		}
	}
	if heir != "" {
		if heir == nobody {
			heir = ""
		}
		if err := t.hand(now, heir, ""); err != nil {
			return "", err
		}
	}
	if s.To == "" {
		return now.Status, nil
	}
	if err := t.event(card.ID, 0, "status", statusPayload(now.Status, card.Status, Movement{Reason: s.Reason, Actor: s.Actor})); err != nil {
		return "", err
	}
	return t.settled(card.ID)
}

// settled lets a todo card go on if nothing holds it, and tells where it is.
func (t *txn) settled(task string) (Status, error) {
	if err := t.promoteIfFree(task); err != nil {
		return "", err
	}
	card, err := loadTask(t.Conn, task)
	return card.Status, err
}
