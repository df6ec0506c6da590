package kanban

import (
	"strings"
	"time"
)

// ParseDue reads a moment as people and programs write it: RFC 3339, a date with a time of day in a zone ("2026-12-24 09:30"),
// or a time from now ("+90m", "+2d"). zone is an IANA name; "" = here.
func ParseDue(text, zone string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if ahead, ok := strings.CutPrefix(text, "+"); ok {
		d, err := ParseSpan(ahead)
		if err != nil || d <= 0 {
			return time.Time{}, invalidField("due_at", "time "+quote(text), "is no time from now", "write it as +90m, +2h or +1d")
		}
		return now.Add(d), nil
	}
	at, err := time.LoadLocation(zone)
	if zone == "" {
		at, err = time.Local, nil
	}
	if err != nil {
		return time.Time{}, invalidField("zone", "zone "+quote(zone), "is not known", "use a name such as Europe/Berlin or UTC")
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, at); err == nil {
			return t, nil
		}
	}
	return time.Time{}, invalidField("due_at", "time "+quote(text), "is no moment", "write it as 2026-12-24T09:30:00Z, as \"2026-12-24 09:30\", or from now as +2h")
}

// ParseSpan reads a length of time: plain seconds, or numbers with s, m, h and d such as 30s, 1h30m, 2d.
func ParseSpan(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	rest, total, good := text, time.Duration(0), text != ""
	for good && rest != "" {
		n, unit := int64(0), time.Duration(0)
		n, unit, rest = spanPart(rest)
		if good = unit != 0 && n <= int64(maxSpan/unit); good {
			total += time.Duration(n) * unit
			good = total <= maxSpan
		}
	}
	if !good {
		return 0, invalid("length of time "+quote(text), "is not understood", "write it as plain seconds, or as 30s, 15m, 2h or 1d")
	}
	return total, nil
}

const maxSpan = 100 * 365 * 24 * time.Hour

// spanPart reads one number with its unit off the front. A unit of 0 means that there is none.
func spanPart(text string) (n int64, unit time.Duration, rest string) {
	i := 0
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		if n = n*10 + int64(text[i]-'0'); n > int64(maxSpan) {
			return 0, 0, ""
		}
	}
	switch {
	case i == 0:
		return 0, 0, ""
	case i == len(text):
		return n, time.Second, ""
	}
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	return n, units[text[i]], text[i+1:]
}
