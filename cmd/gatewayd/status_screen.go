package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"gatewayd/gateway"
	"gatewayd/internal/mutation"
	"gatewayd/kanban/dispatch"
	"gatewayd/kanban/notify"
)

// screen is the place there is to print on.
type screen struct {
	lines   int
	columns int // 0: lines are not cut, nobody sees them on a screen
}

// usual is what a terminal has at least.
const usualLines, leastColumns = 24, 40

func screenOf(out io.Writer) screen {
	if f, ok := terminalOf(out); ok {
		if columns, lines, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return screen{lines: max(lines, usualLines), columns: max(columns, leastColumns)}
		}
	}
	return screen{lines: usualLines}
}

// fit cuts the middle out of a line that is too long: the beginning says what it is about, and of a path or a chain of causes the end counts.
func (p screen) fit(text string) string {
	width := ansi.StringWidth(text)
	if p.columns == 0 || width <= p.columns || mutation.On("screen-is-not-measured") {
		return text
	}
	head := p.columns / 2
	return ansi.Truncate(text, head, "") + ansi.TruncateLeft(text, width-(p.columns-head-1), "…")
}

// printScreen is `gatewayd status`: what a person looks for first, on one screen that leaves a line for the prompt.
func printScreen(w io.Writer, s status, on screen) {
	say := func(format string, args ...any) { fmt.Fprintln(w, on.fit(fmt.Sprintf(format, args...))) }
	row := func(label, words string, below ...string) {
		say("%-8s  %s", label, line(words))
		for _, words := range below {
			say("%-8s  %s", "", line(words))
		}
	}
	say("gatewayd is running: pid %d, up %s, %s, %s", s.PID, time.Since(s.Started).Round(time.Second), unitWords(s.Unit), line(s.Build.Version))
	row("home", s.Home)
	row("API", "http://"+s.Addr)
	row("model", modelWords(s.Model))
	row("state.db", storeWords(s))
	row("backups", backupWords(s.Backups, time.Now()))
	l, g, d := listsOf(s, on.lines), s.Gateway, s.Dispatcher
	row("turns", fmt.Sprintf("%d running, %d waiting; %d ended (%d failed, %d interrupted)", len(g.Running), g.Queued, g.Turns, g.Failed, g.Interrupted), l.turns...)
	row("workers", fmt.Sprintf("%d running, %s; %s", d.InProgress, atMost(d.MaxInProgress), dispatchWords(d)))
	row("boards", boardCounts(d), l.boards...)
	for _, words := range slices.Concat(l.notices, l.lastRun, l.warnings) {
		say("%s", words)
	}
}

// otherLines are those of the screen that are always there: the prompt, the heading, and eight that begin with a label.
const otherLines = 10

// lists are the parts of the screen that can be long. Each is shown as far as there is room, what is wrong before what goes on, and
// ends with how many more there are.
type lists struct{ turns, boards, notices, lastRun, warnings []string }

func listsOf(s status, lines int) lists {
	var warnings, turns, boards [][]string
	for _, warn := range s.Warnings {
		warnings = append(warnings, warn.lines())
	}
	for _, t := range s.Gateway.Running {
		turns = append(turns, []string{turnWords(t)})
	}
	for _, b := range notable(s.Dispatcher.Boards) {
		boards = append(boards, []string{boardWords(b)})
	}
	l := lists{notices: noticeLines(s.Notifier), lastRun: lastRunLines(s.LastRun)}
	room := lines - otherLines - len(l.notices) - len(l.lastRun)
	l.warnings = asManyAsFit(warnings, room-min(len(turns), 2)-min(len(boards), 3), "warning")
	room -= len(l.warnings)
	l.boards = asManyAsFit(boards, room-min(len(turns), 2), "board")
	l.turns = asManyAsFit(turns, room-len(l.boards), "turn")
	return l
}

// asManyAsFit gives the lines of the first items for which there is room, and of the rest how many they are.
func asManyAsFit(items [][]string, room int, thing string) (out []string) {
	whole := slices.Concat(items...)
	if len(whole) <= room {
		return whole
	}
	shown := 0
	for ; shown < len(items) && len(out)+len(items[shown]) < room; shown++ {
		out = append(out, items[shown]...)
	}
	return append(out, "and "+many(len(items)-shown, "more "+thing)+": gatewayd status --all")
}

func (warn warning) lines() []string {
	lines := []string{"! " + line(warn.Says)}
	if warn.Remedy != "" {
		lines = append(lines, "    "+line(warn.Remedy))
	}
	return lines
}

func noticeLines(s notify.Status) []string {
	boards, trouble := 0, ""
	for _, b := range s.Boards {
		if b.Parked > 0 || b.Trouble != "" {
			boards++
			trouble = cmp.Or(trouble, b.Trouble)
		}
	}
	if boards == 0 {
		return nil
	}
	words := fmt.Sprintf("! %s of %s parked or in trouble: `gatewayd kanban notify list`", many(s.Parked(), "notice"), many(boards, "board"))
	if trouble != "" {
		return []string{words, "    " + line(trouble)}
	}
	return []string{words}
}

func lastRunLines(r gateway.Receipt) []string {
	if !r.Run.Known() {
		return nil
	}
	return []string{"last run: " + line(receiptWords(r))}
}

func unitWords(unit string) string {
	if unit == "" {
		return "in no unit"
	}
	return "unit " + line(unit)
}

func modelWords(m modelStatus) string {
	switch {
	case m.Offline:
		return "offline: it answers without a model; set model.base_url"
	case m.Window == 0:
		return cmp.Or(m.Name, "not named yet") + ", context length not known yet"
	}
	return fmt.Sprintf("%s, %d tokens (%s)", cmp.Or(m.Name, "not named yet"), m.Window, m.WindowFrom)
}

func storeWords(s status) string {
	if trouble := s.Store.Trouble(); trouble != "" {
		return line(trouble)
	}
	for _, d := range s.Decisions {
		if d.Thing == "state.db" {
			return "ok, journal mode " + d.Value
		}
	}
	return string(s.Store.State)
}

func turnWords(t gateway.RunningTurn) string {
	ago := func(at time.Time) string { return time.Since(at).Round(time.Second).String() }
	return fmt.Sprintf("%s: %s, for %s, last sign of life %s ago", short(t.Session), t.Phase, ago(t.Since), ago(t.Progress))
}

func dispatchWords(d dispatch.Status) string {
	switch {
	case d.Outside != nil:
		return "held: " + string(d.Outside.Reason)
	case d.Stuck != nil:
		return stuckWord(*d.Stuck) + " since " + minute(d.Stuck.Since) + ": gatewayd why"
	case !d.Dispatching:
		return "not dispatching"
	}
	return "last tick " + moment(d.LastTick)
}

func boardCounts(d dispatch.Status) string {
	if !d.Dispatching && len(d.Boards) == 0 {
		return "not looked at, this daemon does not dispatch"
	}
	running, ready := 0, 0
	for _, b := range d.Boards {
		running, ready = running+b.Running, ready+b.Ready
	}
	return fmt.Sprintf("%d: %s running, %d ready", len(d.Boards), many(running, "card"), ready)
}

// notable are the boards where something goes on, what needs a look first.
func notable(boards []dispatch.BoardStatus) []dispatch.BoardStatus {
	shown := slices.DeleteFunc(slices.Clone(boards), func(b dispatch.BoardStatus) bool { return boardWeight(b) == 0 })
	slices.SortStableFunc(shown, func(a, b dispatch.BoardStatus) int { return boardWeight(b) - boardWeight(a) })
	return shown
}

func boardWords(b dispatch.BoardStatus) string {
	return strings.TrimRight(fmt.Sprintf("%s: %s, %d running, %d ready; %s", b.Slug, b.State, b.Running, b.Ready, boardWaits(b)), "; ")
}

func boardWeight(b dispatch.BoardStatus) int {
	switch {
	case b.Hold != nil:
		return 3
	case b.Ready > 0:
		return 2
	}
	return min(b.Running, 1)
}

// boardWaits is boardHolds without the sentences, which are among the warnings.
func boardWaits(b dispatch.BoardStatus) string {
	if b.Hold != nil {
		return string(b.Hold.Reason)
	}
	return boardHolds(b)
}

func receiptWords(r gateway.Receipt) string {
	words := r.Sentence
	if len(r.Turns) > 0 {
		words += fmt.Sprintf("; %s in flight, see `gatewayd status --all`", many(len(r.Turns), "turn"))
	}
	if r.Waiting > 0 {
		words += fmt.Sprintf("; %s taken up", many(r.Waiting, "waiting message"))
	}
	return words
}

func printWarnings(w io.Writer, warnings []warning) {
	for _, warn := range warnings {
		for _, words := range warn.lines() {
			fmt.Fprintln(w, words)
		}
	}
}
