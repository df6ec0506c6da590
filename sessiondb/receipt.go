package sessiondb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// Receipt is the acknowledgement of a turn: whoever holds it can have it proved later, from the rows alone, that what they were told
// of is what is stored. It covers the rows that the turn stored, up to Row, as they were written; a compaction that folds them away
// and a rewind that takes them back change no row, so the proof outlives both. A copy that a compaction made is no row of the turn.
type Receipt struct {
	Session string `json:"session"`
	Turn    string `json:"turn"`
	Row     int64  `json:"row"`    // the newest row that it covers
	Digest  string `json:"digest"` // sha-256:HEX; see digestRows
}

const receiptAlgorithm = "sha-256:"

// String is the receipt as it stands in a header: session=ID; turn=ID; row=N; digest=sha-256:HEX.
func (r Receipt) String() string {
	return fmt.Sprintf("session=%s; turn=%s; row=%d; digest=%s", r.Session, r.Turn, r.Row, r.Digest)
}

// ParseReceipt reads what String writes, in any order and with any spaces.
func ParseReceipt(text string) (Receipt, error) {
	var r Receipt
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "session":
			r.Session = value
		case "turn":
			r.Turn = value
		case "row":
			r.Row, _ = strconv.ParseInt(value, 10, 64)
		case "digest":
			r.Digest = value
		default:
			return r, errInvalid("receipt", "has a part %.50q; session, turn, row and digest are known", name)
		}
	}
	if r.Session == "" || r.Turn == "" || r.Row <= 0 || !strings.HasPrefix(r.Digest, receiptAlgorithm) {
		return r, errInvalid("receipt", "is not whole; it reads session=ID; turn=ID; row=N; digest=sha-256:HEX")
	}
	return r, nil
}

// digestRows is SHA-256 over netstrings (length, colon, bytes, comma): a name for the form, session, turn, and for each row its id,
// role, content, what was sent where that differs, its tool calls, the call that it answers, the tool's name and its finish reason.
// Lengths keep two fields from being read as one.
func digestRows(session, turn string, rows []Message) string {
	h := sha256.New()
	put := func(fields ...string) {
		for _, f := range fields {
			fmt.Fprintf(h, "%d:%s,", len(f), f)
		}
	}
	put("gatewayd receipt 1", session, turn)
	for _, m := range rows {
		put(strconv.FormatInt(m.ID, 10), m.Role, m.Content, m.Wire, string(m.ToolCalls), m.ToolCallID, m.ToolName, m.FinishReason)
	}
	return receiptAlgorithm + hex.EncodeToString(h.Sum(nil))
}

// selectTurn are the rows that a turn stored, in any state.
const selectTurn = selectRow + ` FROM messages WHERE session_id = ?1 AND turn_id = ?2 AND origin_id = id AND id BETWEEN ?3 AND ?4 ORDER BY id`

// selectTurnNear is the same by the ids alone, for whoever knows where a turn begins: what other sessions wrote meanwhile is stepped over.
const selectTurnNear = selectRow + ` FROM messages NOT INDEXED WHERE +session_id = ?1 AND turn_id = ?2 AND origin_id = id AND id BETWEEN ?3 AND ?4 ORDER BY id`

// Receipt makes the receipt of a turn from what is stored of it between two rows. first is the turn's first row where that is
// known, else 0. It is made after the last row was committed and before anybody is told of it.
func (s *Store) Receipt(ctx context.Context, session, turn string, first, last int64) (Receipt, error) {
	query := selectTurnNear
	if first <= 0 {
		query = selectTurn
	}
	rows, err := s.turnRows(ctx, query, session, turn, first, last)
	if err != nil {
		return Receipt{}, fmt.Errorf("read the turn's rows: %w", err)
	}
	return receiptFor(session, turn, rows), nil
}

func receiptFor(session, turn string, rows []Message) Receipt {
	if len(rows) == 0 {
		return Receipt{}
	}
	last := rows[len(rows)-1].ID
	if mutation.On("receipt-covers-the-first-row-alone") {
		rows = rows[:1]
	}
	return Receipt{Session: session, Turn: turn, Row: last, Digest: digestRows(session, turn, rows)}
}

func (s *Store) turnRows(ctx context.Context, query, session, turn string, first, last int64) (rows []Message, err error) {
	err = s.file.Read(ctx, func(c *sqlite.Conn) error {
		rows, err = s.queryMessages(c, nil, query, session, turn, first, last)
		return err
	})
	return rows, err
}

// TurnRows gives the rows that a turn has stored until now, in any state and as they were written.
func (s *Store) TurnRows(ctx context.Context, session, turn string) ([]Message, error) {
	rows, err := s.turnRows(ctx, selectTurn, session, turn, 0, math.MaxInt64)
	if err != nil {
		return nil, fmt.Errorf("read the turn's rows: %w", err)
	}
	return rows, nil
}

// Proof says what the rows tell of a receipt. What is a sentence for a person.
type Proof struct {
	Receipt Receipt `json:"receipt"`
	Proven  bool    `json:"proven"`
	Rows    int     `json:"rows"`   // of the turn up to the receipt's row that are stored
	Live    int     `json:"live"`   // of them, what the model is still sent
	Folded  int     `json:"folded"` // put behind a summary by a compaction: shown and searched, no longer sent
	Taken   int     `json:"taken"`  // taken back by a rewind, or replaced: in the file, no longer in the conversation
	What    string  `json:"what"`
}

// Check proves a receipt, or says why it cannot be. An error means that the store could not be asked.
func (s *Store) Check(ctx context.Context, r Receipt) (Proof, error) {
	p := Proof{Receipt: r}
	if _, err := s.Session(ctx, r.Session); err != nil {
		return p, err
	}
	rows, err := s.turnRows(ctx, selectTurn, r.Session, r.Turn, 0, math.MaxInt64)
	if err != nil {
		return p, fmt.Errorf("read the turn's rows: %w", err)
	}
	later := 0
	for _, m := range rows {
		switch {
		case m.ID > r.Row:
			later++
			continue
		case m.Active:
			p.Live++
		case m.Compacted:
			p.Folded++
		default:
			p.Taken++
		}
		p.Rows++
	}
	rows = rows[:p.Rows]
	p.Proven = p.Rows > 0 && rows[p.Rows-1].ID == r.Row && digestRows(r.Session, r.Turn, rows) == r.Digest
	p.What = p.words(later)
	return p, nil
}

func (p Proof) words(later int) string {
	switch {
	case p.Rows == 0 && later == 0:
		return "no row of this turn is stored here: it never was in this store, or it was deleted"
	case !p.Proven:
		return fmt.Sprintf("the %d rows that are stored of this turn are not the ones that were acknowledged", p.Rows)
	}
	what := fmt.Sprintf("all %d rows of the turn are stored as they were acknowledged", p.Rows)
	if p.Folded > 0 {
		what += fmt.Sprintf("; %d of them were folded into a summary since: they are kept and searched, the model is no longer sent them", p.Folded)
	}
	if p.Taken > 0 {
		what += fmt.Sprintf("; %d of them were taken back or replaced since: they are kept in the file and are no part of the conversation any more", p.Taken)
	}
	return what
}
