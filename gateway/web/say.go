package web

import (
	"errors"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gatewayd/internal/mutation"
	"gatewayd/kanban"
)

// age says how long something took or lasts, in its largest unit: cards are compared by it at a glance.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " d"
}

// span is age for seconds.
func span(seconds int64) string { return age(time.Duration(seconds) * time.Second) }

// moment is a time as people read it, in the daemon's zone; the exact one is in the element's datetime.
func moment(seconds int64) string { return time.Unix(seconds, 0).Format("2 Jan 2006 15:04") }

func iso(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

// plural counts a thing: "1 card", "2 cards".
func plural(n any, thing string) string {
	text := fmt.Sprint(n)
	if text == "1" {
		return "1 " + thing
	}
	return text + " " + thing + "s"
}

func bytesWord(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1_000_000:
		return strconv.FormatInt((n+500)/1000, 10) + " kB"
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// dict gives a template more than one value.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict wants pairs")
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m, nil
}

// clip bounds a text that stands in a list; the whole of it is one click away.
func clip(n int, text string) string {
	text = strings.Join(strings.Fields(text), " ")
	runes := 0
	for i := range text {
		if runes++; runes > n {
			return strings.TrimSpace(text[:i]) + "…"
		}
	}
	return text
}

// statusWord is a status as a heading.
func statusWord(s kanban.Status) string {
	if s == "" {
		return "no status"
	}
	return firstUpper(strings.ReplaceAll(string(s), "_", " "))
}

// statusHints say what a column is for, where it is empty.
var statusHints = map[kanban.Status]string{
	kanban.StatusTriage: "rough ideas", kanban.StatusTodo: "waits for its parents", kanban.StatusScheduled: "waits for a time", kanban.StatusReady: "may be started",
	kanban.StatusRunning: "a worker has it", kanban.StatusBlocked: "needs a person", kanban.StatusReview: "wants a second look", kanban.StatusDone: "finished",
	kanban.StatusArchived: "put away",
}

func statusHint(s kanban.Status) string { return statusHints[s] }

// firstUpper begins a sentence with a text that was written to stand in one.
func firstUpper(text string) string {
	r, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[size:]
}

// titled is clip for templates: text, which they escape.
func titled(n int, text string) any {
	if mutation.On("card-title-is-markup") {
		return template.HTML(clip(n, text)) //nolint:gosec // the mutation
	}
	return clip(n, text)
}
