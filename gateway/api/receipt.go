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
