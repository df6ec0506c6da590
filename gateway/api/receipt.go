package api

import (
	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// headerReceipt carries the receipt of an answer in one piece; in a stream it is in the last event.
const headerReceipt = "Gatewayd-Receipt"

// receiptOf is the receipt of what a client is told, or nothing where no row was stored for it.
func receiptOf(result gateway.Result) string {
	if result.Digest == "" {
		return ""
	}
	return sessiondb.Receipt{Session: result.Session, Turn: result.TurnID, Row: result.LastRow, Digest: result.Digest}.String()
}

// about says what became of a turn beside its answer: where it is stored, how it ended, and its receipt.
func about(result gateway.Result, end ending) map[string]any {
	body := map[string]any{
		"session": result.Session, "turn_id": result.TurnID, "last_row": result.LastRow, "completed": result.Completed,
		"partial": !result.Completed, "failed": result.Failed, "interrupted": result.Interrupted, "exit_reason": result.ExitReason,
	}
	if text := receiptOf(result); text != "" {
		body["receipt"] = text
	}
	if end.code != "" {
		body["error_code"] = end.code
		if result.Error != nil && end.code != codeNotStored {
			body["error"] = result.Error.Error()
		}
	}
	return body
}
