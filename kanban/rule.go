package kanban

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a machine without time zones must read a rule as every other does

	"github.com/adhocore/gronx"
)

// rule is when a card comes back: a cron expression of five fields, read in a time zone.
type rule struct {
	expr      string
	zone      *time.Location
	everyHour bool // the hour field is a star: it means intervals, not a time of day
}

const (
	// horizon is how far ahead a time may lie. The rarest rule that people mean, 29 February, comes back within eight
	// years even around 2100.
	horizon = 10 * 365 * 24 * time.Hour
	// passes is how many times of the wall clock are looked at until one lies ahead: those of an hour that comes twice.
	passes = 200
)

var (
	cronPart    = regexp.MustCompile(`^(\*|\?|\d{1,2}(-\d{1,2})?)(/\d{1,2})?$`)
	monthDay    = regexp.MustCompile(`^(L|\d{1,2}W)$`)
	weekDay     = regexp.MustCompile(`^([0-7]L|[0-7]#[1-5])$`)
	cronAliases = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@hourly"}
)

// parseRule reads a rule and refuses one that is never due within the horizon.
func parseRule(text, zone string, now time.Time) (rule, error) {
	r := rule{expr: strings.Join(strings.Fields(text), " "), zone: time.UTC}
	if zone != "" {
		loc, err := time.LoadLocation(zone)
		if err != nil || zone == "Local" {
			return r, invalidField("zone", "time zone "+quote(zone), "is not known", "use a name such as Europe/Berlin, or leave it out for UTC")
		}
		r.zone = loc
	}
	if len(strings.Fields(text)) != 5 && !slices.Contains(cronAliases, strings.ToLower(r.expr)) {
		return r, r.bad("is neither five fields nor one of " + strings.Join(cronAliases, ", "))
	}
	fields, err := gronx.Segments(r.expr)
	if err != nil {
		return r, r.bad(err.Error())
	}
	for i, f := range fields[1:] { // the first are seconds, which the library puts there
		if why := badField(i, f); why != "" {
			return r, r.bad(why)
		}
	}
	r.everyHour = strings.HasPrefix(fields[2], "*") || fields[2] == "?"
	if _, ok := r.next(now); !ok {
		return r, r.bad("is not due within ten years")
	}
	return r, nil
}

func (r rule) bad(why string) error {
	return invalidField("rule", "rule "+quote(r.expr), why, "write minute, hour, day of the month, month and day of the week, such as \"30 7 * * 1-5\"")
}

// badField says what is wrong with a field, or nothing. The library looks at a list only up to the first part that is due.
func badField(i int, text string) string {
	names := []string{"minute", "hour", "day of the month", "month", "day of the week"}
	low, high := []int{0, 0, 1, 1, 0}[i], []int{59, 23, 31, 12, 7}[i]
	for part := range strings.SplitSeq(text, ",") {
		if i == 2 && monthDay.MatchString(part) || i == 4 && weekDay.MatchString(part) {
			if n, err := strconv.Atoi(strings.TrimRight(part, "LW")); err == nil && (n < low || n > high) {
				return "has a " + names[i] + " that there is not: " + quote(part)
			}
			continue
		}
		if !cronPart.MatchString(part) {
			return "has a " + names[i] + " that cannot be read: " + quote(part)
		}
		span, step, stepped := strings.Cut(part, "/")
		if n, _ := strconv.Atoi(step); stepped && n < 1 {
			return "has a " + names[i] + " with a step of 0: " + quote(part)
		}
		from, to, ranged := strings.Cut(span, "-")
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err == nil && (first < low || first > high) || ranged && (err2 != nil || last > high || last < first) {
			return "has a " + names[i] + " that there is not: " + quote(part)
		}
	}
	return ""
}

// next is the first time after another at which the rule is due, to the second; false = none within the horizon.
//
// A rule with hours means a time of day: where the clock is put forward over it, it is due at that moment; where the clock
// is put back over it, once, the first time. A rule with a star for the hour means intervals and goes on through both.
func (r rule) next(after time.Time) (time.Time, bool) {
	after = after.Truncate(time.Second)
	find := r.nextByWall
	if r.everyHour {
		find = r.nextByPeriod
	}
	at, ok := find(after)
	return at, ok && at.After(after) && at.Sub(after) <= horizon
}

// nextByWall looks for a time of day, as if the clock were never put, and then for the moment that it means.
func (r rule) nextByWall(after time.Time) (time.Time, bool) {
	wall := asWall(after.In(r.zone))
	for range passes {
		next, err := gronx.NextTickAfter(r.expr, wall, false)
		if err != nil || !next.After(wall) {
			return time.Time{}, false
		}
		if at := r.moment(next); at.After(after) {
			return at, true
		}
		wall = next // the clock was put back: this time of day has been
	}
	return time.Time{}, false
}

// nextByPeriod looks from one change of the clock to the next.
func (r rule) nextByPeriod(after time.Time) (time.Time, bool) {
	for at, incl := after.In(r.zone), false; at.Sub(after) <= horizon; incl = true {
		_, offset := at.Zone()
		_, end := at.ZoneBounds()
		next, err := gronx.NextTickAfter(r.expr, asWall(at), incl)
		if err != nil {
			return time.Time{}, false
		}
		due := next.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || due.Before(end) {
			return due, true
		}
		at = end.In(r.zone)
	}
	return time.Time{}, false
}

// asWall is what the clock on the wall shows, in a zone where it is never put.
func asWall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// moment is when the clock on the wall shows a time: the first of two moments, or, where the clock jumps over it, the
// moment of the jump.
func (r rule) moment(wall time.Time) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, r.zone)
	start, end := t.ZoneBounds()
	switch shown := asWall(t); {
	case shown.After(wall):
		return start
	case shown.Before(wall):
		return end
	case start.IsZero():
		return t
	}
	_, offset := start.Add(-time.Second).Zone()
	if first := wall.Add(-time.Duration(offset) * time.Second); first.Before(start) {
		return first.In(r.zone)
	}
	return t
}
