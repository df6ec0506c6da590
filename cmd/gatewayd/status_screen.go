package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gatewayd/gateway"
	"gatewayd/kanban/dispatch"
)

// How much of each kind fits on a screen of 24 lines; --all shows the rest.
const (
	shownTurns    = 3
	shownBoards   = 5
	shownWarnings = 3
)

// printScreen is `gatewayd status`: what a person looks for first, on one screen.
func printScreen(w io.Writer, s status) {
	fmt.Fprintf(w, "gatewayd %s is running: pid %d, up %s, %s\n", line(s.Build.Version), s.PID, time.Since(s.Started).Round(time.Second), unitWords(s.Unit))
	table(w, func(row func(...any)) {
		row("home", s.Home)
		row("API", "http://"+s.Addr)
		row("model", modelWords(s.Model))
		row("state.db", storeWords(s))
		g := s.Gateway
		row("turns", fmt.Sprintf("%d running in %s, %d waiting; %d ended (%d failed, %d interrupted)", len(g.Running), many(g.Conversations, "chat"), g.Queued, g.Turns, g.Failed, g.Interrupted))
		for _, t := range g.Running[:min(len(g.Running), shownTurns)] {
			row("", turnWords(t))
		}
		rest(row, len(g.Running)-shownTurns, "turn")
		row("workers", fmt.Sprintf("%d running, %s; %s", s.Dispatcher.InProgress, atMost(s.Dispatcher.MaxInProgress), dispatchWords(s.Dispatcher)))
		boardRows(row, s.Dispatcher.Boards)
		for _, b := range s.Notifier.Boards {
			if b.Parked > 0 || b.Trouble != "" {
				row("notices", fmt.Sprintf("%d parked on board %s: `gatewayd kanban notify list`", b.Parked, b.Board))
			}
		}
	})
	if s.LastRun.Run.Known() {
		fmt.Fprintf(w, "last run: %s\n", short(receiptWords(s.LastRun)))
	}
	printWarnings(w, s.Warnings, shownWarnings)
}

func rest(row func(...any), n int, thing string) {
	if n > 0 {
		row("", "and "+many(n, "more "+thing)+": gatewayd status --all")
	}
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
		return short(trouble)
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
		return stuckWord(*d.Stuck) + " since " + when(d.Stuck.Since) + ", see `gatewayd why`"
	case !d.Dispatching:
		return "not dispatching"
	}
	return "last tick " + moment(d.LastTick)
}

// boardRows show what needs a look first, then what is at work; boards where nothing goes on are counted.
func boardRows(row func(...any), boards []dispatch.BoardStatus) {
	running, ready := 0, 0
	var shown []dispatch.BoardStatus
	for _, b := range boards {
		running, ready = running+b.Running, ready+b.Ready
		if boardWeight(b) > 0 {
			shown = append(shown, b)
		}
	}
	slices.SortStableFunc(shown, func(a, b dispatch.BoardStatus) int { return boardWeight(b) - boardWeight(a) })
	row("boards", fmt.Sprintf("%d: %s running, %d ready", len(boards), many(running, "card"), ready))
	for _, b := range shown[:min(len(shown), shownBoards)] {
		row("", strings.TrimRight(fmt.Sprintf("%s: %s, %d running, %d ready; %s", b.Slug, b.State, b.Running, b.Ready, boardWaits(b)), "; "))
	}
	rest(row, len(shown)-shownBoards, "board")
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

func printWarnings(w io.Writer, warnings []warning, most int) {
	for _, warn := range warnings[:min(len(warnings), most)] {
		fmt.Fprintf(w, "! %s\n", short(warn.Says))
		if warn.Remedy != "" {
			fmt.Fprintf(w, "    %s\n", short(warn.Remedy))
		}
	}
	if n := len(warnings) - most; n > 0 {
		fmt.Fprintf(w, "! and %s: gatewayd status --all\n", many(n, "more warning"))
	}
}
