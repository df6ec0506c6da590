package kanban

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustRule(t *testing.T, text, zone string, now time.Time) rule {
	t.Helper()
	r, err := parseRule(text, zone, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARuleIsDueWhenItsZoneSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		rule, zone, after string
		want              []string // in UTC
	}{
		"daily":           {"30 7 * * *", "", "2026-03-01T07:30:00Z", []string{"2026-03-02T07:30:00Z", "2026-03-03T07:30:00Z"}},
		"alias":           {"@weekly", "", "2026-03-02T00:00:00Z", []string{"2026-03-08T00:00:00Z"}},
		"weekdays":        {"0 9 * * MON-FRI", "", "2026-03-06T09:00:00Z", []string{"2026-03-09T09:00:00Z"}},
		"either day":      {"0 0 13 * 5", "", "2026-02-01T00:00:00Z", []string{"2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"}},
		"last of a month": {"0 0 L * *", "", "2027-02-01T00:00:00Z", []string{"2027-02-28T00:00:00Z", "2027-03-31T00:00:00Z"}},
		"the 31st":        {"0 0 31 * *", "", "2026-08-31T00:00:00Z", []string{"2026-10-31T00:00:00Z", "2026-12-31T00:00:00Z"}},
		"leap day":        {"0 0 29 2 *", "", "2026-11-29T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		"eight years":     {"0 0 29 2 *", "", "2096-02-29T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		"zone":            {"0 9 * * *", "Asia/Kolkata", "2026-03-01T00:00:00Z", []string{"2026-03-01T03:30:00Z"}},
		// On 29 March 2026 Berlin's clocks go from 02:00 to 03:00, at 01:00 UTC.
		"in a gap":            {"30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		"twice in a gap":      {"10,40 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:10:00Z"}},
		"in and after a gap":  {"0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
		"hourly over a gap":   {"0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"}},
		"half past over one":  {"30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", []string{"2026-03-29T01:30:00Z"}},
		"gap of half an hour": {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", []string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		"a day that was not":  {"0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", []string{"2011-12-30T10:00:00Z"}},
		// On 25 October 2026 Berlin's clocks go from 03:00 to 02:00, at 01:00 UTC.
		"in a fold":          {"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		"after its first":    {"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", []string{"2026-10-26T01:30:00Z"}},
		"each minute of one": {"* 2 * * *", "Europe/Berlin", "2026-10-25T01:20:00Z", []string{"2026-10-26T01:00:00Z"}},
		"hourly over a fold": {"0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", []string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		"often over a fold":  {"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", []string{"2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"}},
	} {
		after, _ := time.Parse(time.RFC3339, c.after)
		r, at := mustRule(t, c.rule, c.zone, after), after
		for _, want := range c.want {
			next, ok := r.next(at)
			if got := next.UTC().Format(time.RFC3339); !ok || got != want {
				t.Errorf("%s: after %s comes %s (%v), want %s", name, at.UTC().Format(time.RFC3339), got, ok, want)
				break
			}
			at = next
		}
	}
}

func TestARuleThatIsNeverDueIsRefusedAtOnce(t *testing.T) {
	for _, text := range []string{"0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31 */2 *"} {
		begun := time.Now()
		_, err := parseRule(text, "Europe/Berlin", time.Now())
		if never := text != "0 0 31 */2 *"; (err != nil) != never {
			t.Errorf("%s: %v", text, err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s took %v", text, took)
		}
	}
}

// field is a cron field and the numbers that it means.
type cronField struct {
	text string
	has  map[int]bool
}

func drawField(t *rapid.T, name string, low, high int) cronField {
	f := cronField{has: map[int]bool{}}
	var parts []string
	for range rapid.IntRange(1, 2).Draw(t, name+" parts") {
		from := rapid.IntRange(low, high).Draw(t, name)
		to, step := from, 1
		text := strconv.Itoa(from)
		switch rapid.IntRange(0, 3).Draw(t, name+" form") {
		case 0:
			from, to, text = low, high, "*"
		case 1:
			from, to, step = low, high, rapid.IntRange(1, high-low).Draw(t, name+" step")
			text = "*/" + strconv.Itoa(step)
		case 2:
			to = rapid.IntRange(from, high).Draw(t, name+" to")
			text += "-" + strconv.Itoa(to)
		}
		for n := from; n <= to; n += step {
			f.has[n] = true
		}
		parts = append(parts, text)
		if strings.HasPrefix(text, "*") {
			parts = []string{text}
			break
		}
	}
	if strings.HasPrefix(parts[len(parts)-1], "*") {
		parts = parts[len(parts)-1:]
		f.has = map[int]bool{}
		step := 1
		if _, s, ok := strings.Cut(parts[0], "/"); ok {
			step, _ = strconv.Atoi(s)
		}
		for n := low; n <= high; n += step {
			f.has[n] = true
		}
	}
	f.text = strings.Join(parts, ",")
	return f
}

// A calendar that is walked minute by minute says the same as the library, whatever the rule.
func TestRulesAgreeWithACalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minute, hour := drawField(t, "minute", 0, 59), drawField(t, "hour", 0, 23)
		day, month, week := drawField(t, "day", 1, 31), drawField(t, "month", 1, 12), drawField(t, "week", 0, 6)
		text := strings.Join([]string{minute.text, hour.text, day.text, month.text, week.text}, " ")
		start := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 400*24*60).Draw(t, "start")) * time.Minute)
		r, err := parseRule(text, "", start)
		if err != nil {
			t.Skip(err.Error())
		}
		got, _ := r.next(start)
		both := strings.HasPrefix(day.text, "*") || strings.HasPrefix(week.text, "*")
		at := start.Add(time.Minute)
		for end := start.AddDate(2, 0, 0); at.Before(end); {
			d, w := day.has[at.Day()], week.has[int(at.Weekday())]
			switch {
			case !month.has[int(at.Month())] || both && !(d && w) || !both && !(d || w):
				at = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)
			case !hour.has[at.Hour()]:
				at = at.Truncate(time.Hour).Add(time.Hour)
			case !minute.has[at.Minute()]:
				at = at.Add(time.Minute)
			default:
				if !got.Equal(at) {
					t.Fatalf("%q after %v: %v, the calendar says %v", text, start, got, at)
				}
				return
			}
		}
		if got.Before(at) {
			t.Fatalf("%q after %v: %v, the calendar knows none", text, start, got)
		}
	})
}

// Whatever the zone does to its clocks, the next time lies ahead, and a rule of each day comes about once a day.
func TestNextLiesAheadInEveryZone(t *testing.T) {
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "America/Sao_Paulo", "Asia/Gaza", "UTC"}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		text := rapid.SampledFrom([]string{"30 2 * * *", "0 0 * * *", "15 1 * * *", "0 * * * *", "*/20 * * * *", "59 23 * * *"}).Draw(t, "rule")
		at := time.Unix(rapid.Int64Range(1230768000, 1893456000).Draw(t, "after"), 0)
		r, err := parseRule(text, zone, at)
		if err != nil {
			t.Fatal(err)
		}
		most := 51 * time.Hour
		if r.everyHour {
			most = 2*time.Hour + 30*time.Minute
		}
		if zone == "Pacific/Apia" {
			most += 24 * time.Hour
		}
		for range 20 {
			next, ok := r.next(at)
			if !ok || !next.After(at) || next.Sub(at) > most {
				t.Fatalf("%s in %s after %v: %v, %v", text, zone, at.In(r.zone), next, ok)
			}
			at = next
		}
	})
}

func TestAliasesAreKnown(t *testing.T) {
	for _, alias := range cronAliases {
		if _, err := parseRule(strings.ToUpper(alias), "", time.Now()); err != nil {
			t.Error(err)
		}
	}
	if slices.Contains(cronAliases, "@reboot") {
		t.Error("@reboot has no time")
	}
}
