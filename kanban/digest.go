package kanban

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
)

// digest is what was asked for when a card was made under an idempotency key, in short. It is kept with the `created` event and
// not read off the card: people edit and move cards, and the request that made one is the same all the same. Who asks is no part
// of it, nor is the board's own default. Fields without a value are left out, so that a field of a later gatewayd changes nothing.
func (in NewTask) digest(checked NewTask) string {
	checked.WorkspacePath = in.WorkspacePath
	checked.OneRequest = false
	checked.IdempotencyKey, checked.DefaultWorkdir, checked.CreatedBy, checked.CreatorTask = "", "", "", ""
	said, fields := map[string]any{}, reflect.ValueOf(checked)
	for i := range fields.NumField() {
		if of := fields.Type().Field(i); of.IsExported() && !fields.Field(i).IsZero() {
			said[of.Name] = fields.Field(i).Interface()
		}
	}
	text, _ := json.Marshal(said) // texts, numbers and flags
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

const selectDigest = `SELECT COALESCE(json_extract(CASE WHEN json_valid(e.payload) THEN e.payload END, '$.request'), '')
FROM task_events e WHERE e.task_id = ? AND e.kind = 'created' ORDER BY e.id LIMIT 1`

// replay refuses a key of one request that is used for another. A card that Hermes made, or whose first event is gone, has no digest and is
// answered as it is.
func (t *txn) replay(found Task, in NewTask) error {
	var first string
	if _, err := t.Row(selectDigest, []any{found.ID}, &first); err != nil {
		return err
	}
	if !in.OneRequest || first == "" || in.request == "" || first == in.request {
		return nil
	}
	e := conflict(found.ID, ErrConflict, "was made under the idempotency key %s by another request", quote(in.IdempotencyKey))
	e.Remedy = "send the first request again to be answered the card, or take another key for another card"
	return e
}
