package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/chamber"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// account is all that is known of a play when it is over.
type account struct {
	message, nonce string
	turn, probe    heard
	calls, late    int               // of the first turn; after its interrupt
	interrupt      time.Duration     // from the interrupt to the end of the turn; 0 without one
	probes         []fakellm.Request // what the model was sent by the second turn
	skipProbe      bool              // the play has demands of its own on it
	rows           []sessiondb.Message
	damage         []string // what the store's own audit found
	left           []string // processes that outlived the daemon
	exit           time.Duration
	code, signal   int
}

// judge says everything that is wrong with how a play went. It is pure, and each of its sentences is shown to be able to come.
func judge(p play, a account) (found []string) {
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	judgeTurn(p, a, say)
	if !a.skipProbe {
		judgeProbe(a, say)
	}
	for _, what := range append(alternate(a.rows), a.damage...) {
		say("the rows: %s", what)
	}
	if n := countRows(a.rows, "user", a.message); n != 1 {
		say("the message has %d rows instead of one", n)
	}
	for _, p := range a.left {
		say("outlived the daemon: %s", p)
	}
	if a.exit > exitBound || a.code != 0 || a.signal != 0 {
		say("the daemon ended after %v with code %d, signal %d", a.exit, a.code, a.signal)
	}
	return found
}

func judgeTurn(p play, a account, say func(string, ...any)) {
	if a.turn.err != nil || a.turn.place("done") < 0 {
		say("the turn did not end for its client within %v: %v", turnBound, a.turn.err)
	}
	if len(a.turn.words()) < 3 {
		say("the turn ended without a word")
	}
	for _, raw := range []string{"goroutine ", "panic", "nil pointer", "runtime error"} {
		if strings.Contains(a.turn.words(), raw) {
			say("a person reads %q", raw)
		}
	}
	if way := wayOf(a.turn); p.want != way && (p.want != ended || way == interrupted) {
		say("the turn was %s, want %s: %q", way, p.want, a.turn.words())
	}
	switch {
	case p.want == interrupted && a.late > lateCalls:
		say("%d calls after the interrupt, at most %d", a.late, lateCalls)
	case p.want == interrupted && a.interrupt > stopBound:
		say("the interrupt took %v, at most %v", a.interrupt, stopBound)
	case p.most > 0 && a.calls > p.most, a.calls < p.least:
		say("%d calls of the model, want %d to %d", a.calls, p.least, p.most)
	}
}

// wayOf says how a turn ended for its client.
func wayOf(h heard) ending {
	switch {
	case h.receipt.Interrupted, strings.HasPrefix(h.receipt.ExitReason, "interrupted"), h.status == 409:
		return interrupted
	case h.why != "" || h.receipt.Failed || h.status != 200:
		return explained
	}
	return answered
}

func judgeProbe(a account, say func(string, ...any)) {
	if a.probe.err != nil || a.probe.why != "" || !strings.Contains(a.probe.text, a.nonce) {
		say("the probe was not answered: %q, %q, %v", a.probe.text, a.probe.why, a.probe.err)
		return
	}
	if n := strings.Count(a.probe.text, a.nonce); n != 1 {
		say("the probe was answered %d times: %q", n, a.probe.text)
	}
	if len(a.probes) != 1 {
		say("the probe took %d calls of the model", len(a.probes))
		return
	}
	sent := messagesOf(a.probes[0])
	if countIn(sent, a.message) != 1 {
		say("the probe's request carries the first message %d times", countIn(sent, a.message))
	}
	if what := sentWhole(sent); what != "" {
		say("the probe's request: %s", what)
	}
}

// sentWhole says what is wrong with the order of a request's messages.
func sentWhole(sent []chamber.Sent) string {
	var rows []sessiondb.Message
	for _, m := range sent {
		if m.Role == "system" {
			continue
		}
		row := sessiondb.Message{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
		if len(m.ToolCalls) > 0 {
			row.ToolCalls = callsJSON(m.ToolCalls)
		}
		rows = append(rows, row)
	}
	return strings.Join(alternate(append(rows, sessiondb.Message{Role: "assistant"})), "; ")
}

// alternate says where people and model do not take turns, and which call has not exactly one result after it.
func alternate(rows []sessiondb.Message) (found []string) {
	last, asked := "", []string{}
	for i, row := range rows {
		if row.Role == "system" {
			continue // a line for people
		}
		if row.Role == "tool" {
			at := slices.Index(asked, row.ToolCallID)
			if at < 0 {
				found = append(found, fmt.Sprintf("row %d answers the call %q, which nothing before it waits for", i, row.ToolCallID))
				continue
			}
			asked = slices.Delete(asked, at, at+1)
			last = "tool"
			continue
		}
		if len(asked) > 0 {
			found = append(found, fmt.Sprintf("the calls %q have no result before row %d", asked, i))
		}
		if row.Role == last {
			found = append(found, fmt.Sprintf("row %d is another one of the %s", i, row.Role))
		}
		last, asked = row.Role, callsIn(row)
	}
	if len(asked) > 0 || last == "user" {
		found = append(found, fmt.Sprintf("the last row is of the %s, and %q have no result", last, asked))
	}
	return found
}

func countRows(rows []sessiondb.Message, role, text string) (n int) {
	for _, row := range rows {
		if row.Role == role && strings.Contains(row.Content, text) {
			n++
		}
	}
	return n
}

// good is an account in which nothing is wrong.
func good() (play, account) {
	p := play{name: "x", want: explained, most: callBound, least: 1}
	user := func(text string) sessiondb.Message { return sessiondb.Message{Role: "user", Content: text} }
	words := func(text string) sessiondb.Message { return sessiondb.Message{Role: "assistant", Content: text} }
	call := sessiondb.Message{Role: "assistant", ToolCalls: []byte(`[{"id":"c"}]`)}
	result := sessiondb.Message{Role: "tool", ToolCallID: "c", Content: "done"}
	done := []part{{kind: "why"}, {kind: "done"}}
	return p, account{
		message: "first", nonce: "n0", calls: callBound, rows: []sessiondb.Message{user("first"), call, result, words("no"), user("n0"), words("n0")},
		turn:   heard{status: 200, why: "the model is silent", parts: done},
		probe:  heard{status: 200, text: "Here, n0.", parts: done},
		probes: []fakellm.Request{{Body: []byte(`{"messages":[{"role":"user","content":"first"},{"role":"assistant","content":"no"},{"role":"user","content":"n0"}]}`)}},
	}
}

// What judges the plays can find each thing that it looks for, its own bound of calls among them: what cannot fail proves
// nothing.
func TestTheJudgeFindsWhatItLooksFor(t *testing.T) {
	if p, a := good(); len(judge(p, a)) != 0 {
		t.Fatalf("it finds fault with a good play: %q", judge(p, a))
	}
	for want, spoil := range map[string]func(p *play, a *account){
		"17 calls of the model, want 1 to 16": func(_ *play, a *account) { a.calls = callBound + 1 },
		"1 calls of the model, want 2 to 16":  func(p *play, a *account) { p.least, a.calls = 2, 1 },
		"did not end for its client":          func(_ *play, a *account) { a.turn.parts = nil },
		"ended without a word":                func(_ *play, a *account) { a.turn.why = "" },
		`a person reads "goroutine "`:         func(_ *play, a *account) { a.turn.why = "goroutine 7 [running]" },
		"was explained, want answered":        func(p *play, _ *account) { p.want = answered },
		"was interrupted, want ended":         func(p *play, a *account) { p.want = ended; a.turn.receipt.Interrupted = true },
		"3 calls after the interrupt": func(p *play, a *account) {
			p.want, a.late, a.turn.receipt.Interrupted = interrupted, lateCalls+1, true
		},
		"the interrupt took 16s": func(p *play, a *account) {
			p.want, a.interrupt, a.turn.receipt.Interrupted = interrupted, 16*time.Second, true
		},
		"the probe was not answered":            func(_ *play, a *account) { a.probe.text = "Here." },
		"the probe was answered 2 times":        func(_ *play, a *account) { a.probe.text += a.probe.text },
		"the probe took 2 calls":                func(_ *play, a *account) { a.probes = append(a.probes, a.probes[0]) },
		"carries the first message 0 times":     func(_ *play, a *account) { a.message = "another" },
		"the message has 2 rows":                func(_ *play, a *account) { a.rows = append(a.rows, a.rows[0]) },
		"is another one of the user":            func(_ *play, a *account) { a.rows = append(a.rows[:1:1], a.rows...) },
		"have no result before row 2":           func(_ *play, a *account) { a.rows = slices.Delete(slices.Clone(a.rows), 2, 3) },
		"which nothing before it waits for":     func(_ *play, a *account) { a.rows = slices.Insert(slices.Clone(a.rows), 3, a.rows[2]) },
		"the last row is of the user":           func(_ *play, a *account) { a.rows = a.rows[:5] },
		"the rows: torn":                        func(_ *play, a *account) { a.damage = []string{"torn"} },
		"outlived the daemon: 7 sleep":          func(_ *play, a *account) { a.left = []string{"7 sleep"} },
		"the daemon ended after 31s":            func(_ *play, a *account) { a.exit = 31 * time.Second },
		"the daemon ended after 0s with code 2": func(_ *play, a *account) { a.code = 2 },
	} {
		p, a := good()
		spoil(&p, &a)
		if found := judge(p, a); !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("it does not find %q: %q", want, found)
		}
	}
}

// No play may ask more of a model than the bound of all of them.
func TestNoPlayHasMoreCallsThanTheBound(t *testing.T) {
	all := slices.Concat(modelPlays(), toolPlays(), interruptPlays())
	if len(all) != 22 {
		t.Errorf("%d plays", len(all))
	}
	names := map[string]bool{}
	for _, p := range all {
		if names[p.name] || p.most > callBound || p.most == 0 && p.want != interrupted {
			t.Errorf("%s: at most %d calls", p.name, p.most)
		}
		names[p.name] = true
	}
}
