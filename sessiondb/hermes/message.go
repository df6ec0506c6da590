package hermes

import (
	"context"
	"regexp"

	"gatewayd/internal/sqlite"
)

// Message is one row of messages. At is microseconds since 1970, 0 where the row has no time.
type Message struct {
	ID            int64
	UID           string // 32 hex digits, "" where the row has none; copies of a message may share it
	DisplayOrder  int64  // id of the first row of this logical message, 0 where the file does not say
	Role          string
	Content, Wire string
	ToolCalls     string // a JSON array, or a JSON string with what could not be read; "" for none
	ToolCallID    string
	ToolName      string
	Effect        string
	FinishReason  string
	Reasoning     string
	Kind          string // display_kind
	Summary       bool   // stands for rows that were folded away
	ModelOnly     bool   // sent to the model and never shown
	Active        bool
	Compacted     bool
	At            int64
	Warnings      []Warning
}

var messageColumns = []string{
	"id", "message_uid", "display_order", "role", "content", "api_content", "tool_calls", "tool_call_id", "tool_name", "effect_disposition",
	"finish_reason", "reasoning", "reasoning_content", "display_kind", "display_metadata", "_compressed_summary", "active", "compacted", "timestamp",
}

// page is how many messages, and pageBytes how much of their text, Messages gives at once; at least one.
const (
	page      = 200
	pageBytes = 2 << 20
)

// Messages gives the messages of a session with ids above after, in their order, as many as one page holds. None: there are
// no more.
func (s *Store) Messages(ctx context.Context, session string, after int64) (out []Message, err error) {
	query := `SELECT ` + s.cells("messages", "m", messageColumns...) + ` FROM messages m WHERE m.session_id = ? AND m.id > ? ORDER BY m.id LIMIT ?`
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		out = nil
		size := 0
		for r, err := range c.Query(query, session, after, page) {
			if err != nil {
				return err
			}
			m := scanMessage(&row{Row: r, names: messageColumns, session: session, id: r.Int(0)})
			out = append(out, m)
			if size += m.Size(); size > pageBytes {
				return nil
			}
		}
		return nil
	})
	return out, err
}

// Count gives the messages of a session, and of sessions that are not there: rows that nothing leads to.
func (s *Store) Count(ctx context.Context) (of map[string]int64, orphans int64, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		of, orphans = map[string]int64{}, 0
		for r, err := range c.Query(`SELECT session_id, count(*) FROM messages GROUP BY session_id`) {
			if err != nil {
				return err
			}
			of[r.Text(0)] = r.Int(1)
		}
		_, err := c.Row(`SELECT count(*) FROM messages WHERE session_id IS NULL OR session_id NOT IN (SELECT id FROM sessions WHERE id IS NOT NULL)`, nil, &orphans)
		return err
	})
	return of, orphans, err
}

// Size is what the texts of a message take, in bytes.
func (m Message) Size() int {
	return len(m.Content) + len(m.Wire) + len(m.ToolCalls) + len(m.Reasoning)
}

var uidForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

func scanMessage(r *row) Message {
	m := Message{
		ID: r.id, DisplayOrder: max(r.number("display_order", 0), 0), Role: r.text("role"), ToolCallID: r.text("tool_call_id"), ToolName: r.text("tool_name"),
		Effect: r.text("effect_disposition"), FinishReason: r.text("finish_reason"), Kind: r.text("display_kind"),
		Summary: r.flag("_compressed_summary", 0), Active: r.flag("active", 1), Compacted: r.flag("compacted", 0), At: r.micros("timestamp"),
	}
	if uid := r.text("message_uid"); uidForm.MatchString(uid) {
		m.UID = uid
	} else if uid != "" {
		r.warn("message_uid", "is not of 32 hexadecimal digits; another name was made")
	}
	r.texts(&m)
	if m.Role == "assistant" {
		if m.Reasoning = r.text("reasoning"); m.Reasoning == "" {
			m.Reasoning = r.text("reasoning_content")
		}
	}
	m.ModelOnly = modelOnly(r.text("display_metadata"))
	r.flags(&m)
	m.Warnings = r.warnings
	return m
}

// texts decodes what was said, what was sent, and the calls.
func (r *row) texts(m *Message) {
	parts := 0
	if m.Content, parts = decodeContent(r.text("content")); parts > 0 {
		r.warn("content", "has %d parts that are no text; a mark stands in their place", parts)
	}
	if m.Wire, _ = decodeContent(r.text("api_content")); m.Wire == m.Content {
		m.Wire = ""
	}
	var ok bool
	if m.ToolCalls, ok = callList(r.text("tool_calls")); !ok {
		r.warn("tool_calls", "is no JSON array; it was kept as text")
	}
}

// flags mends a state that cannot be: what is active is sent to the model, so that is what it is.
func (r *row) flags(m *Message) {
	if m.Active && m.Compacted {
		m.Compacted = false
		r.warn("compacted", "is set together with active; the row counts as active")
	}
}
