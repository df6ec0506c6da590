package sessiondb

import (
	"encoding/json"
	"fmt"

	"gatewayd/internal/mutation"
)

// auditRow is what an audit looks at of a message.
type auditRow struct {
	id, origin, active, compacted, at int64
	uid, role, kind, calls, answers   string
}

func (r auditRow) live() bool    { return r.active == 1 && r.compacted == 0 }
func (r auditRow) visible() bool { return r.active == 1 || r.compacted == 1 }

// audit judges the rows of one session, fed in the order of their ids. It is pure: what it says depends on the rows and on
// running alone.
type audit struct {
	session string
	running bool // somebody holds the turn: the end may be unfinished
	report  func(Finding)

	rows, live int64
	lastSane   int64 // latest sane time of a row
	uids       map[string]int64
	first      map[int64]int64    // origin → id of its first row
	liveOf     map[int64]int64    // origin → id of its live row
	shown      map[int64]struct{} // origins with a visible row
	hidden     []auditRow         // superseded results of folded calls, judged when all rows are known

	lastRole string
	block    *callBlock // of the live rows
	folded   *callBlock // of folded rows, as they stand in the file
}

// callBlock is the calls of one assistant row and the results that follow it.
type callBlock struct {
	row     int64
	ids     []string
	answers map[string]int
}

func newAudit(session string, running bool, report func(Finding)) *audit {
	return &audit{
		session: session, running: running, report: report, uids: map[string]int64{}, first: map[int64]int64{}, liveOf: map[int64]int64{},
		shown: map[int64]struct{}{},
	}
}

func (a *audit) damage(code string, row int64, remedy, format string, args ...any) {
	a.report(Finding{Code: code, Level: Damage, Session: a.session, Row: row, What: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (a *audit) notice(code string, row int64, remedy, format string, args ...any) {
	a.report(Finding{Code: code, Level: Notice, Session: a.session, Row: row, What: fmt.Sprintf(format, args...), Remedy: remedy})
}

// What to do about a finding.
const (
	remedyReport = "keep a copy of state.db and report it; nothing has to be done for the conversation to go on"
	remedyReplay = "the model is sent a mended copy, so the conversation can go on; report it if this gatewayd wrote the rows"
	remedyBackup = "compare with a backup: gatewayd sessions export from it gives the rows"
	remedyNone   = "nothing has to be done"
)

// add takes the next row.
func (a *audit) add(r auditRow) {
	a.rows++
	a.state(r)
	a.names(r)
	a.origin(r)
	if r.live() {
		a.live++
		a.role(r)
	}
	a.fold(r)
}

func (a *audit) state(r auditRow) {
	if r.active == 1 && r.compacted == 1 || r.active|r.compacted > 1 || r.active|r.compacted < 0 {
		a.damage("row_state", r.id, remedyReport, "is marked active %d and compacted %d, which cannot be", r.active, r.compacted)
	}
	if !sane(r.at) {
		a.notice("time_absurd", r.id, remedyNone, "has the time %d, which no clock showed", r.at)
		return
	}
	if r.kind != KindSummary && r.kind != KindModelOnly { // to be compacted is no activity
		a.lastSane = max(a.lastSane, r.at)
	}
}

func (a *audit) names(r auditRow) {
	if r.uid == "" {
		a.damage("uid_missing", r.id, remedyReport, "has no uid")
	} else if other, twice := a.uids[r.uid]; twice {
		a.damage("uid_twice", r.id, remedyBackup, "has the uid of row %d", other)
	}
	a.uids[r.uid] = r.id
}

// origin checks that the first row of a logical message is there, before its copies, and that at most one of them is live.
func (a *audit) origin(r auditRow) {
	_, known := a.first[r.origin]
	switch {
	case r.origin == r.id:
		a.first[r.id] = r.id
	case r.origin > r.id:
		a.damage("origin_after", r.id, remedyReport, "names row %d as its first row, which came after it", r.origin)
	case !known:
		a.damage("origin_missing", r.id, remedyReport, "names row %d as its first row, which is not a first row of this session", r.origin)
	}
	if r.visible() {
		a.shown[r.origin] = struct{}{}
	}
	if !r.live() {
		return
	}
	if other, twice := a.liveOf[r.origin]; twice && !mutation.On("verify-sees-no-live-twin") {
		a.damage("live_twice", r.id, remedyBackup, "is live beside row %d, which is the same message: the model is sent it twice", other)
	}
	a.liveOf[r.origin] = r.id
}

// role follows the live rows as a model is sent them.
func (a *audit) role(r auditRow) {
	if r.role == "tool" {
		a.result(r)
		a.lastRole = r.role
		return
	}
	a.closeBlock(false)
	switch {
	case r.role == "user" && (a.lastRole == "user" || a.lastRole == "tool") && !withinTurn(r.kind) && r.kind != "history":
		a.damage("roles_do_not_alternate", r.id, remedyReplay, "is of the user and follows a row of the %s", a.lastRole)
	case r.role == "assistant" && a.lastRole == "assistant":
		a.notice("answer_in_parts", r.id, remedyNone, "is an answer right after an answer; both are sent as one")
	}
	if r.role == "assistant" {
		a.block = a.openBlock(r)
	}
	if r.role != "system" {
		a.lastRole = r.role
	}
}

// openBlock reads the calls of an assistant row; nil when there are none.
func (a *audit) openBlock(r auditRow) *callBlock {
	if r.calls == "" {
		return nil
	}
	ids, err := callIDs(r.calls)
	if err != nil {
		a.damage("calls_unreadable", r.id, remedyReplay, "has tool calls that cannot be read (%v)", err)
		return nil
	}
	b := &callBlock{row: r.id, answers: map[string]int{}}
	for _, id := range ids {
		if _, twice := b.answers[id]; twice {
			a.damage("call_id_twice", r.id, remedyReplay, "has two calls with the id %q", id)
			continue
		}
		b.answers[id] = 0
		b.ids = append(b.ids, id)
	}
	return b
}

func callIDs(calls string) ([]string, error) {
	var list []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(calls), &list); err != nil {
		return nil, err
	}
	ids := make([]string, len(list))
	for i, call := range list {
		ids[i] = call.ID
	}
	return ids, nil
}

func (a *audit) result(r auditRow) {
	var n int
	known := false
	if a.block != nil {
		n, known = a.block.answers[r.answers]
	}
	switch {
	case !known:
		a.damage("result_without_call", r.id, remedyReplay, "answers the call %q, which the row before does not make", r.answers)
		return
	case n > 0:
		a.damage("call_answered_twice", r.id, remedyReplay, "answers the call %q a second time", r.answers)
	}
	a.block.answers[r.answers]++
}

// closeBlock judges the calls of the last live assistant row. At the end of a conversation a call may wait: for the turn
// that runs, or for the next message, which brings its answer along.
func (a *audit) closeBlock(end bool) {
	b := a.block
	a.block = nil
	if b == nil {
		return
	}
	for _, id := range b.ids {
		if b.answers[id] > 0 {
			continue
		}
		if end {
			return // turnEnd says it
		}
		a.damage("call_unanswered", b.row, remedyReplay, "calls %q and no row answers it", id)
	}
}

// fold follows the rows as they stand in the file: the results of a folded call must not have been thrown away.
func (a *audit) fold(r auditRow) {
	if r.role != "tool" {
		a.folded = nil
		if ids, err := callIDs(r.calls); r.role == "assistant" && r.compacted == 1 && r.calls != "" && err == nil {
			a.folded = &callBlock{row: r.id, ids: ids}
		}
		return
	}
	if a.folded != nil && !r.visible() {
		a.hidden = append(a.hidden, r)
	}
}

// end judges what only all rows together tell.
func (a *audit) end() {
	open := a.lastRole == "user" || a.lastRole == "tool" || a.unanswered()
	a.closeBlock(true)
	if open && !a.running {
		a.notice("turn_cut_off", 0, "the next message mends it", "ends in the middle of a turn that nobody works on")
	}
	for _, r := range a.hidden {
		if _, ok := a.shown[r.origin]; !ok {
			a.damage("result_hidden", r.id, remedyBackup, "is the result of a folded call and was superseded: nobody can read it any more")
		}
	}
}

func (a *audit) unanswered() bool {
	if a.block == nil {
		return false
	}
	for _, id := range a.block.ids {
		if a.block.answers[id] == 0 {
			return true
		}
	}
	return false
}
