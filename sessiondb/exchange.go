package sessiondb

// Kinds of rows that the store itself tells apart. The others belong to whoever writes them.
const (
	KindSummary   = "summary"    // stands for rows that a compaction folded away
	KindModelOnly = "model_only" // sent to the model; no part of the history that people read and search: the rows it was made of are
	KindSteer     = "steer"      // said by a person into a running turn
	KindResumed   = "resumed"    // tells the model that its turn goes on in another process
)

// StartsExchange reports a row with which a person began a turn. What was said into a running turn belongs to that turn.
func (m Message) StartsExchange() bool {
	if m.Role != "user" {
		return false
	}
	return m.Kind != KindSummary && m.Kind != KindModelOnly && !withinTurn(m.Kind)
}

// withinTurn reports a kind of row that was said into a turn: it may follow a result, and another one of its kind.
func withinTurn(kind string) bool { return kind == KindSteer || kind == KindResumed }

// Exchanges gives the places in rows at which an exchange begins; it lasts until the next. What stands before the first
// belongs to none. It is pure: rows are live rows in their order.
func Exchanges(rows []Message) []int {
	var starts []int
	for i, m := range rows {
		if m.StartsExchange() {
			starts = append(starts, i)
		}
	}
	return starts
}

// KeepLast cuts rows before the last n exchanges. With fewer than n exchanges the head holds what stands before the
// first.
func KeepLast(rows []Message, n int) (head, tail []Message) {
	starts := Exchanges(rows)
	if n <= 0 || len(starts) == 0 {
		return rows, nil
	}
	at := starts[max(0, len(starts)-n)]
	return rows[:at], rows[at:]
}
