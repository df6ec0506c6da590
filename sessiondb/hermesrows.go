package sessiondb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb/hermes"
)

// movingSession is one session on its way in.
type movingSession struct {
	*hermesImport
	session hermes.Session
	here    present
	o       *Outcome

	named   map[string]bool       // uids of the file that a row before had: copies of a message keep its uid
	origins map[string]*originRef // the first row of each logical message, by what names it
	lastAt  int64
}

// originRef is the first row of a logical message: an id of ours, or, while its chunk is not stored, the row itself.
type originRef struct {
	id   int64
	row  *movingRow
	live bool // one of its rows is
}

// movingRow is one message on its way in.
type movingRow struct {
	hermes.Message
	uids   []string // the first that is free is its name
	kind   string
	origin *originRef
	id     int64 // given by the transaction that stores it
}

// flagChange is a row of ours whose flags follow the file.
type flagChange struct {
	id                int64
	active, compacted bool
}

func (m *movingSession) move(ctx context.Context) error {
	m.lastAt = max(m.session.OpenedAt, 1)
	for after := int64(0); ; {
		rows, err := m.src.Messages(ctx, m.session.ID, after)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			break
		}
		after = rows[len(rows)-1].ID
		if err := m.bring(ctx, rows); err != nil {
			return err
		}
	}
	if m.blocked() {
		return nil
	}
	err := m.finish(ctx)
	if errors.Is(err, errMeanwhile) {
		m.out.note("session %s: its end, title and usage were not brought, it was written to here meanwhile", m.session.ID)
		return nil
	}
	return err
}

// bring stores what is new in a page of rows.
func (m *movingSession) bring(ctx context.Context, rows []hermes.Message) error {
	fresh, flags := m.plan(rows)
	if len(fresh)+len(flags) == 0 {
		return nil
	}
	if !m.blocked() {
		err := m.storeChunk(ctx, fresh, flags)
		if !errors.Is(err, errMeanwhile) {
			m.o.Added += int64(len(fresh))
			return err
		}
		m.here.local = true
	}
	if m.here.busy != "" {
		m.o.skip(int64(len(fresh)), "a turn runs in it here (%s); import again when it has ended", m.here.busy)
	} else {
		m.o.skip(int64(len(fresh)), "the conversation went on here; it was left as it is")
	}
	return nil
}

// blocked says that nothing may be changed in the session here.
func (m *movingSession) blocked() bool { return m.here.local || m.here.busy != "" }

// plan sorts the next messages into new rows, changed flags, and what is here or cannot be taken.
func (m *movingSession) plan(rows []hermes.Message) (fresh []*movingRow, flags []flagChange) {
	for _, row := range rows {
		m.warn(row.Warnings)
		if row.At == 0 {
			row.At = m.lastAt
		}
		m.lastAt = row.At
		uids := m.uids(row)
		if have, ok := m.find(uids); ok {
			m.o.Present++
			m.known(row, have)
			if have.active != row.Active || have.compacted != row.Compacted {
				flags = append(flags, flagChange{have.id, row.Active, row.Compacted})
			}
			continue
		}
		if !m.acceptable(&row) {
			continue
		}
		next := &movingRow{Message: row, uids: uids, kind: kindOf(row)}
		next.origin = m.originOf(next)
		fresh = append(fresh, next)
	}
	return fresh, flags
}

// acceptable maps the roles of the file to ours and refuses what a row cannot hold.
func (m *movingSession) acceptable(row *hermes.Message) bool {
	switch row.Role {
	case "user", "assistant", "tool", "system":
	case "developer":
		row.Role = "system"
	case "function":
		row.Role = "tool"
	default:
		m.o.skip(1, "the role %q is none of a conversation", row.Role)
		return false
	}
	if row.Size() > maxMessage {
		m.o.skip(1, "a message of more than %d bytes is not stored", maxMessage)
		return false
	}
	return true
}

func kindOf(row hermes.Message) string {
	switch {
	case row.Summary:
		return KindSummary
	case row.ModelOnly:
		return KindModelOnly
	}
	return row.Kind
}

// uids are the names that a row may have here, the best one first. A file that is upgraded later gives its rows uids, and
// itself an id; the older names are looked for too, so that nothing comes twice.
func (m *movingSession) uids(row hermes.Message) (names []string) {
	if row.UID != "" && !m.named[row.UID] {
		m.named[row.UID] = true
		names = append(names, row.UID)
	}
	names = append(names, derivedUID(m.src.ID(), m.session.ID, row.ID))
	if m.src.ID() != "" {
		names = append(names, derivedUID("", m.session.ID, row.ID))
	}
	return names
}

// derivedPrefix marks names that were made from a place in a foreign file.
const derivedPrefix = "h-"

// derivedUID names a row of a foreign store by its place there, so that it has the same name each time it is imported.
func derivedUID(store, session string, row int64) string {
	if mutation.On("derived-uid-ignores-session") {
		session = ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%d", len(store), store, len(session), session, row))
	return derivedPrefix + hex.EncodeToString(sum[:16])
}

// ownUID reports a name that newUID made: the row was written here, or comes from another gatewayd.
func ownUID(uid string) bool {
	return len(uid) == 28 && uid[11] == '-' && !strings.HasPrefix(uid, derivedPrefix)
}

func (m *movingSession) find(uids []string) (presentRow, bool) {
	if mutation.On("import-without-exists-check") {
		return presentRow{}, false
	}
	for _, uid := range uids {
		if row, ok := m.here.rows[uid]; ok {
			return row, true
		}
	}
	return presentRow{}, false
}

// known enters a row that is here already, so that copies after it find their first row.
func (m *movingSession) known(row hermes.Message, have presentRow) {
	ref := &originRef{id: have.origin}
	for _, key := range originKeys(row) {
		if old, ok := m.origins[key]; ok {
			ref = old
			break
		}
	}
	m.enter(ref, row)
}

// originOf finds the first row of the message that this row is a copy of, or takes the row itself. A second live row of one
// message, which no reader expects, becomes a message of its own.
func (m *movingSession) originOf(row *movingRow) *originRef {
	live := row.Active && !row.Compacted
	for _, key := range originKeys(row.Message) {
		if ref, ok := m.origins[key]; ok && !(live && ref.live) {
			m.enter(ref, row.Message)
			return ref
		}
	}
	ref := &originRef{row: row}
	m.enter(ref, row.Message)
	return ref
}

func (m *movingSession) enter(ref *originRef, row hermes.Message) {
	ref.live = ref.live || (row.Active && !row.Compacted)
	for _, key := range originKeys(row) {
		if _, taken := m.origins[key]; !taken {
			m.origins[key] = ref
		}
	}
}

// originKeys are what rows of one logical message have in common: its uid, its place on a screen, or, in files that know
// neither, everything that was said and when.
func originKeys(row hermes.Message) (keys []string) {
	if row.UID != "" {
		keys = append(keys, "uid "+row.UID)
	}
	if !row.Active && !row.Compacted {
		return keys
	}
	if row.DisplayOrder > 0 {
		return append(keys, fmt.Sprintf("order %d", row.DisplayOrder))
	}
	if row.UID != "" {
		return keys
	}
	h := sha256.New()
	for _, f := range []string{row.Role, row.Content, row.ToolCalls, row.ToolCallID, row.ToolName} {
		fmt.Fprintf(h, "%d:%s", len(f), f)
	}
	return append(keys, fmt.Sprintf("said %d %x", row.At, h.Sum(nil)))
}
