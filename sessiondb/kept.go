package sessiondb

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// Bounds of the transcripts that a store keeps in memory.
const (
	DefaultKeepBytes = 16 << 20         // over all conversations: two of ten thousand rows, or hundreds of usual ones
	keepIdle         = 10 * time.Minute // a conversation that rests longer is read from the file again
)

// keptRows is what a read found of a session: its live rows, and the version that they had.
type keptRows struct {
	rows    []Message // only ever grown, and only by whoever took it
	version int64
	bytes   int64
	used    time.Time
}

// kept are the transcripts that were read last. They are never believed without a proof (see proven), so nothing has to be told to
// them: neither by this process nor by another.
type kept struct {
	limit int64
	mu    sync.Mutex
	of    map[string]keptRows
	bytes int64
}

// take gives a transcript to one reader, who puts it back: another who comes meanwhile reads the file.
func (k *kept) take(session string) keptRows {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.remove(session)
}

func (k *kept) remove(session string) keptRows {
	t := k.of[session]
	delete(k.of, session)
	k.bytes -= t.bytes
	return t
}

// put keeps a transcript and lets those go that were not used for longest.
func (k *kept) put(session string, t keptRows, now time.Time) {
	if t.bytes > k.limit || len(t.rows) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(session)
	if k.of == nil {
		k.of = map[string]keptRows{}
	}
	t.used = now
	k.of[session], k.bytes = t, k.bytes+t.bytes
	for k.bytes > k.limit {
		k.remove(k.oldest())
	}
}

func (k *kept) oldest() (name string) {
	for session, t := range k.of {
		if name == "" || t.used.Before(k.of[name].used) {
			name = session
		}
	}
	return name
}

// drop lets go what nobody used since.
func (k *kept) drop(since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for session, t := range k.of {
		if t.used.Before(since) {
			k.remove(session)
		}
	}
}

func sizeOf(rows []Message) (n int64) {
	for i := range rows {
		m := &rows[i]
		n += int64(unsafe.Sizeof(*m)) + int64(len(m.UID)+len(m.TurnID)+len(m.Role)+len(m.Content)+len(m.Wire)+len(m.ToolCalls)+len(m.ToolCallID)+
			len(m.ToolName)+len(m.Effect)+len(m.FinishReason)+len(m.Reasoning)+len(m.Kind))
	}
	return n
}

// selectProof tells what a session is now, and of the rows up to one: how many are live, and the uid of the last.
const selectProof = `SELECT version, message_count, (SELECT count(*)` + inState + `1 AND compacted = 0 AND id <= ?2),
 (SELECT uid FROM messages WHERE id = ?2) FROM sessions WHERE id = ?1`

// readTranscript gives the live rows of a session: those that are kept, where nothing happened to them, and the newer ones from the file.
func (s *Store) readTranscript(c *sqlite.Conn, session string, old keptRows) (now keptRows, err error) {
	var last, count, hint int64
	var uid *string
	if n := len(old.rows); n > 0 {
		last = old.rows[n-1].ID
	}
	if _, err := c.Row(selectProof, []any{session, last}, &now.version, &hint, &count, &uid); err != nil {
		return keptRows{}, err
	}
	if !old.proven(now.version, count, uid) {
		old = keptRows{rows: make([]Message, 0, min(max(hint, 0), maxHint))}
		last = 0
	}
	before := len(old.rows)
	now.rows, err = s.queryMessages(c, old.rows, selectTranscript, session, last)
	if err != nil {
		return keptRows{}, err
	}
	now.bytes = old.bytes + sizeOf(now.rows[before:])
	return now, nil
}

// proven says that these rows are what a read of the file would give, up to the last of them. A row that is changed or taken away draws a
// new version. A row's uid is in one history only, so the file holds everything that was done before that row; and what was done since
// has drawn a version, or has added rows behind it, or, by a hand that names its own ids, in between: those are counted.
func (t keptRows) proven(version, count int64, uid *string) bool {
	n := len(t.rows)
	if mutation.On("kept-rows-are-believed") {
		return n > 0
	}
	return n > 0 && t.version == version && count == int64(n) && uid != nil && *uid == t.rows[n-1].UID
}

// clipped gives the rows to a caller who may append to them and changes none.
func (t keptRows) clipped() []Message { return slices.Clip(t.rows) }
