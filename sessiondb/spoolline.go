package sessiondb

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// KindSpooled marks a row that came back from the spool and had no kind of its own: it was said, but the store took it
// later than the turn it belongs to. A resume gives such a row no benefit of the doubt (an answer "yes" in it is no
// consent any more).
const KindSpooled = "spooled"

// spooled is one batch of rows that could not be stored, or the end of a lease: what one line of the spool holds.
type spooled struct {
	At      time.Time      `json:"at"`
	PID     int            `json:"pid"`
	Cause   string         `json:"cause"`          // why the store did not take it
	Session spooledSession `json:"session"`        // what is known of it, to make it anew where it is gone
	Opened  time.Time      `json:"opened"`         // when that session began
	Token   string         `json:"token"`          // of the turn lease under which the rows were said
	Release bool           `json:"release"`        // the turn gave its lease back; there are no rows
	Rows    []spooledRow   `json:"rows,omitempty"` // in together or not at all
	Kept    string         `json:"kept,omitempty"` // why it could not be replayed (in the file of kept lines)
	Raw     []byte         `json:"raw,omitempty"`  // a line nobody can read, as it was
}

// spooledSession is NewSession with stable names.
type spooledSession struct {
	ID         string `json:"id"`
	Key        string `json:"key,omitempty"`
	Source     string `json:"source,omitempty"`
	Title      string `json:"title,omitempty"`
	Model      string `json:"model,omitempty"`
	Prompt     string `json:"prompt,omitempty"`
	Parent     string `json:"parent,omitempty"`
	Cwd        string `json:"cwd,omitempty"`
	Hidden     bool   `json:"hidden,omitempty"`
	TitleAlone bool   `json:"-"`
	Unbegun    bool   `json:"-"`
}

// spooledRow is NewMessage with stable names: a spool outlives the program that wrote it.
type spooledRow struct {
	UID          string          `json:"uid"`
	TurnID       string          `json:"turn_id,omitempty"`
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
	CreatedAt    time.Time       `json:"created_at"`
	Spent        *UsageDelta     `json:"-"` // whoever wrote the row is told that it is not stored, and settles that
}

func spoolRows(batch []NewMessage) []spooledRow {
	out := make([]spooledRow, len(batch))
	for i, m := range batch {
		out[i] = spooledRow(m)
	}
	return out
}

// messages are the rows as they are stored when they come back.
func (r *spooled) messages() []NewMessage {
	out := make([]NewMessage, len(r.Rows))
	for i, row := range r.Rows {
		out[i] = NewMessage(row)
		if out[i].Kind == "" {
			out[i].Kind = KindSpooled
		}
	}
	return out
}

// spoolLine is how a record lies in the file: its sum covers exactly the bytes of record.
type spoolLine struct {
	Sum    string          `json:"sum"`
	Record json.RawMessage `json:"record"`
}

func sumOf(record []byte) string {
	sum := sha256.Sum256(record)
	return hex.EncodeToString(sum[:16])
}

// line writes a record as one line of JSON that ends with a newline.
func (r *spooled) line() ([]byte, error) {
	var record bytes.Buffer
	e := json.NewEncoder(&record)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("encode spooled rows: %w", err)
	}
	body := bytes.TrimSuffix(record.Bytes(), []byte("\n"))
	return fmt.Appendf(nil, `{"sum":%q,"record":%s}`+"\n", sumOf(body), body), nil
}

var errSpoolLine = errors.New("the line is not what was written")

// readSpooled reads one line without its newline.
func readSpooled(line []byte) (*spooled, error) {
	var l spoolLine
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, fmt.Errorf("%w: %w", errSpoolLine, err)
	}
	if sumOf(l.Record) != l.Sum {
		return nil, fmt.Errorf("%w: its checksum differs", errSpoolLine)
	}
	var r spooled
	if err := json.Unmarshal(l.Record, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", errSpoolLine, err)
	}
	return &r, nil
}

// eachSpooled hands out the lines of a spool file in order. What follows the last newline is a write that a kill cut
// off: nobody was told that it is kept, and it is passed over. A line in the middle that does not read comes as a record
// with Raw alone.
func eachSpooled(file io.Reader, do func(*spooled) error) error {
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read spool: %w", err)
		}
		r, err := readSpooled(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			r = &spooled{Raw: line}
		}
		if err := do(r); err != nil {
			return err
		}
	}
}
