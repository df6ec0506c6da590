package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"gatewayd/kanban/dispatch"
)

// printDispatcher is the board part of `gatewayd status`.
func printDispatcher(w io.Writer, d dispatch.Status) {
	fmt.Fprintf(w, "workers: %d running, %s\n", d.InProgress, atMost(d.MaxInProgress))
	for _, p := range d.Pools {
		fmt.Fprintf(w, "pool %s: %d of %d places taken\n", p.Name, p.Taken, p.Places)
	}
	if m := d.Memory; m.Level == "elevated" || m.Level == "critical" {
		fmt.Fprintf(w, "memory is %s: %s\n", m.Level, m.Detail)
	}
	fmt.Fprintf(w, "dispatcher's lock: %s\n", lockWords(d.Lock))
	fmt.Fprintf(w, "last tick %s, the next at the latest %s\n", moment(d.LastTick), moment(d.NextTick))
	if d.Outside != nil {
		fmt.Fprintf(w, "dispatcher is held: %s\n", firstHold([]dispatch.Hold{*d.Outside}))
	}
	if d.Stuck != nil {
		fmt.Fprintf(w, "%s since %s: %s\n", stuckWord(*d.Stuck), when(d.Stuck.Since), line(d.Stuck.String()))
	}
	if len(d.Held) > 0 {
		fmt.Fprintln(w, "ready cards are held because:")
		table(w, func(row func(...any)) {
			for _, reason := range slices.Sorted(maps.Keys(d.Held)) {
				row(fmt.Sprintf("  %d", d.Held[reason]), reason, reason.Text())
			}
		})
	}
	table(w, func(row func(...any)) {
		for _, b := range d.Boards {
			row("board "+b.Slug, b.State, fmt.Sprintf("%d running, %d ready", b.Running, b.Ready), "ticked "+moment(b.LastTick), tickLock(b.Lock), boardHolds(b))
		}
		for _, l := range d.Lanes {
			row("lane "+l.Name, l.Preset, fmt.Sprintf("%d running, %s", l.Running, atMost(l.MaxInProgress)), "", "", firstHold(l.Holds))
		}
	})
}

func stuckWord(s dispatch.Stuck) string {
	if s.Kept {
		return "waiting"
	}
	return "STUCK"
}

func atMost(n int) string {
	if n <= 0 {
		return "no limit"
	}
	return fmt.Sprintf("at most %d", n)
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return when(*t)
}

// lockWords name the holder of a lock, or who had it last.
func lockWords(l dispatch.LockStatus) string {
	if l.PID == 0 {
		return "nobody"
	}
	who := fmt.Sprintf("process %d on %s", l.PID, l.Host)
	switch {
	case l.Ours:
		who = "this daemon, " + who
	case !l.Held:
		who = "nobody; last " + who
	case l.By != "":
		who += " (" + l.By + ")"
	}
	if l.From != nil {
		who += " since " + when(*l.From)
	}
	return line(who)
}

// tickLock names who is in its tick on the board, where that is another process.
func tickLock(l *dispatch.LockStatus) string {
	if l == nil || !l.Held || l.Ours {
		return ""
	}
	return "in a tick of " + lockWords(*l)
}

// boardHolds says what keeps a board, or its ready cards, from being served.
func boardHolds(b dispatch.BoardStatus) string {
	if b.Hold != nil {
		return firstHold([]dispatch.Hold{*b.Hold})
	}
	var counts []string
	for _, reason := range slices.Sorted(maps.Keys(b.Holds)) {
		counts = append(counts, fmt.Sprintf("%d %s", b.Holds[reason], reason))
	}
	return strings.Join(counts, ", ")
}

func firstHold(holds []dispatch.Hold) string {
	if len(holds) == 0 {
		return ""
	}
	h := holds[0]
	since := ""
	if h.Since != nil {
		since = " since " + when(*h.Since)
	}
	said := fmt.Sprintf("%s%s: %s", h.Reason, since, h.Detail)
	if h.Remedy != "" {
		said += "; " + h.Remedy
	}
	return line(said)
}
