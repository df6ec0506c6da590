package sessiondb

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"gatewayd/internal/sqlite"
)

// Message is one row of a conversation. Wire holds the exact bytes that were sent where they differ from Content.
type Message struct {
	ID           int64           `json:"id"`
	UID          string          `json:"uid"`
	SessionID    string          `json:"session_id"`
	TurnID       string          `json:"turn_id,omitempty"`
	OriginID     int64           `json:"origin_id"`
	Role         string          `json:"role"`
	Content      string          `json:"content"`
	Wire         string          `json:"wire,omitempty"`
	ToolCalls    json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID   string          `json:"tool_call_id,omitempty"`
	ToolName     string          `json:"tool_name,omitempty"`
	Effect       string          `json:"effect,omitempty"`
	FinishReason string          `json:"finish_reason,omitempty"`
	Reasoning    string          `json:"reasoning,omitempty"`
	Kind         string          `json:"kind,omitempty"`
	Active       bool            `json:"active"`
	Compacted    bool            `json:"compacted"`
	CreatedAt    time.Time       `json:"created_at"` // zero when the stored number is no time
}

// NewMessage is a row to be written. An empty UID is made by Append; a zero or absurd CreatedAt becomes now.
type NewMessage struct {
	UID, TurnID          string
	Role, Content, Wire  string
	ToolCalls            json.RawMessage
	ToolCallID, ToolName string
	Effect, FinishReason string
	Reasoning, Kind      string
	CreatedAt            time.Time

	// Spent is what the model's answer cost that the row holds. It is no part of the row: it is added to the session's sums in the
	// transaction that stores the row, or not at all.
	Spent *UsageDelta
}

// messageColumns is the one order in which rows of a session are read; scanMessage follows it. The session is known to
// whoever reads, and 400 copies of its name are not free.
const messageColumns = `id, uid, turn_id, origin_id, role, content, wire, tool_calls, tool_call_id, tool_name,
 effect, finish_reason, reasoning, kind, active, compacted, created_at`

func (s *Store) scanMessage(r *sqlite.Row, session string) Message {
	m := Message{
		ID: r.Int(0), UID: r.Text(1), SessionID: session, TurnID: text(r, 2), OriginID: r.Int(3), Role: r.Text(4),
		Content: r.Text(5), Wire: text(r, 6), ToolCallID: text(r, 8), ToolName: text(r, 9), Effect: text(r, 10),
		FinishReason: text(r, 11), Reasoning: text(r, 12), Kind: text(r, 13), Active: r.Bool(14), Compacted: r.Bool(15),
	}
	if !r.Null(7) {
		m.ToolCalls = json.RawMessage(r.Text(7))
	}
	at := r.Int(16)
	if m.CreatedAt = moment(at); !sane(at) {
		s.once.warn("message has no sane time", session, "session", session, "message", m.ID, "stored", at)
	}
	return m
}

func text(r *sqlite.Row, i int) string {
	if r.Null(i) {
		return ""
	}
	return r.Text(i)
}

// null stores an absent text as NULL, so that most rows carry no bytes for it.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Digest names the state of a row, for Repair's compare-and-swap. Length prefixes keep two fields from being read as one.
func (m Message) Digest() string {
	h := sha256.New()
	for _, f := range []string{
		m.UID, m.Role, m.Content, m.Wire, string(m.ToolCalls), m.ToolCallID, m.ToolName, m.Effect, m.FinishReason, m.Reasoning, m.Kind,
	} {
		fmt.Fprintf(h, "%d:%s", len(f), f)
	}
	fmt.Fprintf(h, "%t %t", m.Active, m.Compacted)
	return hex.EncodeToString(h.Sum(nil))
}

// maxMessage keeps one row within what a connection's memory can hold several times over.
const maxMessage = 32 << 20

func (m NewMessage) check(i int) error {
	switch m.Role {
	case "system", "user", "assistant", "tool":
	default:
		return errInvalid(fmt.Sprintf("message %d", i), "has the role %q; known are system, user, assistant, tool", m.Role)
	}
	if size := len(m.Content) + len(m.Wire) + len(m.Reasoning) + len(m.ToolCalls); size > maxMessage {
		return errInvalid(fmt.Sprintf("message %d", i), "has %d bytes; at most %d are stored", size, maxMessage)
	}
	if len(m.ToolCalls) > 0 && !json.Valid(m.ToolCalls) {
		return errInvalid(fmt.Sprintf("message %d", i), "has tool calls that are not JSON")
	}
	return nil
}
