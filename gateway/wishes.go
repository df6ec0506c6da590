package gateway

import (
	"encoding/json"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// recallWishes reads what the client of a run asked of its answers from the run's row, whichever process accepted the message. What cannot
// be read costs the wishes and not the turn.
func (t *turn) recallWishes() error {
	if !t.say.Detached || t.say.UID == "" || t.say.Wishes.Any() || mutation.On("resumed-without-wishes") {
		return nil
	}
	list, err := t.g.opts.Store.Runs(t.ctx, sessiondb.RunFilter{Session: t.session.ID, UID: t.say.UID, Limit: 1})
	if err != nil || len(list) == 0 || list[0].Request == nil {
		return err
	}
	if err := json.Unmarshal(list[0].Request, &t.say.Wishes); err != nil {
		t.log.Warn("what was asked of the answers of a run cannot be read, they come without it", "run", list[0].ID, "error", err)
	}
	return nil
}
