package sessiondb

import (
	"encoding/json"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/sqlite"
)

// places is what becomes of each row that a plan saw.
type places struct {
	untouched, kept, folded, dropped []Message // dropped: model-only rows, whose originals are history already
}

func errPlan(session, format string, args ...any) error {
	return errInvalid(sessionThing(session), "cannot be compacted so: the plan "+format, args...)
}

// places gives each old row its place, or says which row would have none.
func (f *fold) places(old, late []Message) (places, error) {
	kept, err := f.keptInOrder(old)
	if err != nil {
		return places{}, err
	}
	covered := map[int64]bool{}
	for _, id := range f.Covered {
		covered[id] = true
	}
	var p places
	for _, m := range old {
		all := f.Covered == nil || covered[m.ID]
		delete(covered, m.ID)
		switch {
		case kept[m.ID] && f.Covered != nil && all:
			return places{}, errPlan(f.Lease.Session, "both keeps and folds message %d", m.ID)
		case kept[m.ID]:
			p.kept = append(p.kept, m)
		case all && (m.Kind == KindModelOnly || m.Role == "tool" && mutation.On("compaction-supersedes-tool-rows")):
			p.dropped = append(p.dropped, m)
		case all:
			p.folded = append(p.folded, m)
		case len(p.kept)+len(p.folded)+len(p.dropped) > 0:
			return places{}, errPlan(f.Lease.Session, "gives message %d no place", m.ID)
		default:
			p.untouched = append(p.untouched, m)
		}
	}
	for id := range covered {
		return places{}, errPlan(f.Lease.Session, "folds message %d, which is not live", id)
	}
	if len(p.folded)+len(p.dropped) == 0 {
		return places{}, errPlan(f.Lease.Session, "folds nothing")
	}
	return p, f.checkPairs(p, old, late)
}

// keptInOrder checks that kept rows are live, named once, and in the order of the conversation.
func (f *fold) keptInOrder(old []Message) (map[int64]bool, error) {
	live := make(map[int64]bool, len(old))
	for _, m := range old {
		live[m.ID] = true
	}
	kept, last := map[int64]bool{}, int64(0)
	for _, r := range f.Rows {
		switch {
		case r.Keep == 0:
			continue
		case !live[r.Keep]:
			return nil, errPlan(f.Lease.Session, "keeps message %d, which is not live", r.Keep)
		case r.Keep <= last:
			return nil, errPlan(f.Lease.Session, "keeps message %d twice or out of order", r.Keep)
		}
		kept[r.Keep], last = true, r.Keep
	}
	return kept, nil
}

// checkPairs refuses to part a call from its result: a model is never sent one without the other. Models use the same id
// again, so a result belongs to the last call before it. A new row may stand for either.
func (f *fold) checkPairs(p places, old, late []Message) error {
	gone, stands := map[int64]bool{}, map[string]bool{}
	for _, id := range idsOf(p.folded, p.dropped) {
		gone[id] = true
	}
	for _, m := range f.news {
		stands[m.ToolCallID] = true
		for _, id := range callsOf(m.ToolCalls) {
			stands[id] = true
		}
	}
	call := map[string]int64{}
	for _, rows := range [][]Message{old, late} {
		for _, m := range rows {
			for _, id := range callsOf(m.ToolCalls) {
				call[id] = m.ID
			}
			from, known := call[m.ToolCallID]
			if m.Role == "tool" && known && gone[from] != gone[m.ID] && !stands[m.ToolCallID] {
				return errPlan(f.Lease.Session, "parts the call %q from its result", m.ToolCallID)
			}
		}
	}
	return nil
}

// callsOf gives the ids of a row's calls; what is no list of calls has none.
func callsOf(calls json.RawMessage) []string {
	if len(calls) == 0 {
		return nil
	}
	ids, _ := callIDs(string(calls))
	return ids
}

// retire takes the old rows out of the live set: history stays to be read, originals of copies are superseded.
func (p *places) retire(tx *sqlite.Tx, late []Message) error {
	if err := setState(tx, idsOf(p.folded), 0, 1); err != nil {
		return err
	}
	return setState(tx, idsOf(p.kept, p.dropped, late), 0, 0)
}

func idsOf(lists ...[]Message) []int64 {
	ids := []int64{}
	for _, rows := range lists {
		for _, m := range rows {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// setState writes the two flags of rows, any number of them by one argument.
func setState(tx *sqlite.Tx, ids []int64, active, compacted int) error {
	if len(ids) == 0 {
		return nil
	}
	list, _ := json.Marshal(ids) // numbers always marshal
	res, err := tx.Exec(`UPDATE messages SET active = ?2, compacted = ?3 WHERE id IN (SELECT value FROM json_each(?1))`, string(list), active, compacted)
	if err == nil && res.Changes != int64(len(ids)) {
		err = fmt.Errorf("set the state of %d rows: %d were there", len(ids), res.Changes)
	}
	return err
}

// remember keeps which rows a summary stands for, by their uids.
func (p *places) remember(tx *sqlite.Tx, session string, summary int64) error {
	if summary == 0 {
		return nil
	}
	uids := make([]string, len(p.folded))
	for i, m := range p.folded {
		uids[i] = m.UID
	}
	list, _ := json.Marshal(uids) // strings always marshal
	_, err := tx.Exec(`INSERT INTO folds(summary, session_id, absorbed, created_at) VALUES(?, ?, ?, ?)`, summary, session, string(list), time.Now().UnixMicro())
	return err
}
