package gateway

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"gatewayd/sessiondb"
)

// Kinds of rows that the gateway writes for itself. An empty kind is what a person or a model said.
const (
	kindClosing     = "closing"    // ends a turn that has no answer
	kindCheckpoint  = "checkpoint" // what was visible when a newer message took over
	kindRepair      = sessiondb.KindRepair
	kindInterrupted = sessiondb.KindInterrupted
)

// confirmationAge is how old an unanswered "yes" may be. Later than this nobody can know what it was said to. One that came back
// from the spool is always too old: between it and its answer the store was down.
const confirmationAge = time.Minute

const (
	unknownEffect = "[the process that ran this ended before the result was recorded. Its effect is UNKNOWN: " +
		"it may have happened fully, in part, or not at all. Look at the state of things before repeating it]"
	neverRead    = "[not run: the process ended first. It only reads, so it can be asked again]"
	neverStored  = "[not run: the call could not be stored first]"
	cutOffAnswer = "[This turn was cut off: the process that worked on it ended before there was an answer. Nothing of it is running any more."
	withdrawn    = "[a confirmation that was given here has expired; ask again before doing what it was about]"
)

// repair is what has to be written before a transcript can be continued. It touches the tail only: rows before it were repaired
// when they were the tail.
type repair struct {
	turn      string
	words     string              // of the closing row; empty: cutOffAnswer
	supersede []sessiondb.Message // rows of read-only calls without any result; the model asks again
	withdraw  *sessiondb.Message  // an old confirmation; its wire text is replaced
	insert    []sessiondb.NewMessage
	unknown   int
	notRun    int
}

// planRepair decides, from the rows alone and the clock, what became of a turn nobody works on any more. It is idempotent: after
// its repairs are written it plans nothing.
func planRepair(rows []sessiondb.Message, now time.Time) repair { return planClosing(rows, "", now) }

// planClosing is planRepair with other words for the closing row.
func planClosing(rows []sessiondb.Message, words string, now time.Time) repair {
	r := repair{words: words}
	if len(rows) == 0 {
		return r
	}
	r.turn = rows[len(rows)-1].TurnID
	rows = r.openCalls(rows)
	if len(r.insert) == 0 && (len(rows) == 0 || rows[len(rows)-1].Role == roleAssistant || rows[len(rows)-1].Role == roleSystem) {
		return r
	}
	if last := rows[len(rows)-1]; last.Role == roleUser && staleConfirmation(last, now) {
		r.withdraw = &last
	}
	r.insert = append(r.insert, sessiondb.NewMessage{
		TurnID: r.turn, Role: roleAssistant, Content: r.closing(), FinishReason: finishInterrupted, Kind: kindClosing,
	})
	return r
}

// openCalls answers the calls of the last block that have no result, or drops the block, and gives the rows that remain.
func (r *repair) openCalls(rows []sessiondb.Message) []sessiondb.Message {
	start := len(rows) - 1
	for start >= 0 && rows[start].Role == roleTool {
		start--
	}
	if start < 0 || rows[start].Role != roleAssistant {
		return rows
	}
	calls, answers := storedCalls(rows[start]), results(rows[start+1:])
	if len(calls) > 0 && len(answers) == 0 && readOnly(calls) {
		r.supersede, r.notRun = append(r.supersede, rows[start]), r.notRun+len(calls)
		return r.openCalls(rows[:start])
	}
	for _, call := range calls {
		if _, ok := answers[call.ID]; !ok {
			r.answer(call)
		}
	}
	return rows
}

func (r *repair) answer(call storedCall) {
	row := sessiondb.NewMessage{
		TurnID: r.turn, Role: roleTool, Content: neverRead, ToolCallID: call.ID, ToolName: call.Function.Name, Effect: intentNone, Kind: kindRepair,
	}
	if call.Intent == intentNone {
		r.notRun++
	} else {
		row.Content, row.Effect = unknownEffect, "unknown"
		r.unknown++
	}
	r.insert = append(r.insert, row)
}

func (r *repair) closing() string {
	words := cmp.Or(r.words, cutOffAnswer)
	if r.unknown > 0 {
		return words + fmt.Sprintf(" The effect of %d tool call(s) is UNKNOWN; look before repeating them.]", r.unknown)
	}
	return words + "]"
}

func (r *repair) empty() bool {
	return len(r.supersede) == 0 && r.withdraw == nil && len(r.insert) == 0
}

// recovered says for people what the repair did.
func (r *repair) recovered(session string) Recovered {
	out := Recovered{
		Session: session, TurnID: r.turn, Unknown: r.unknown, NotRun: r.notRun, Dropped: len(r.supersede), Withdrawn: r.withdraw != nil, Closed: len(r.insert) > 0,
	}
	var parts []string
	if r.unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d tool call(s) answered as effect unknown", r.unknown))
	}
	switch {
	case len(r.supersede) > 0:
		parts = append(parts, fmt.Sprintf("%d read-only tool call(s) dropped", r.notRun))
	case r.notRun > 0:
		parts = append(parts, fmt.Sprintf("%d read-only tool call(s) answered as not run", r.notRun))
	}
	if r.withdraw != nil {
		parts = append(parts, "an old confirmation withdrawn")
	}
	if out.Closed {
		parts = append(parts, "a closing row says so")
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing to repair: it had ended, or had not begun")
	}
	out.Outcome = strings.Join(parts, ", ")
	return out
}

func readOnly(calls []storedCall) bool {
	for _, call := range calls {
		if call.Intent != intentNone {
			return false
		}
	}
	return true
}

// confirmation is a message that is nothing but consent.
var confirmation = regexp.MustCompile(`(?i)^\W*(y|yes|yep|yeah|ok|okay|sure|go|go ahead|go on|do it|proceed|confirm|confirmed|approve|approved|` +
	`please do|run it|allow|accept|continue|ja|mach das|oui|si|sí)(\W+(please|now|then|bitte))?\W*$`)

func staleConfirmation(row sessiondb.Message, now time.Time) bool {
	if row.Wire == withdrawn || !confirmation.MatchString(row.Content) {
		return false
	}
	return row.Kind == sessiondb.KindSpooled || !row.CreatedAt.IsZero() && now.Sub(row.CreatedAt) > confirmationAge
}
