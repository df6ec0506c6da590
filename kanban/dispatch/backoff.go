package dispatch

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
)

const (
	systemicCards   = 3
	systemicWindow  = time.Minute
	backoffFirst    = 5 * time.Minute
	hostFirst       = 30 * time.Second
	backoffLongest  = time.Hour
	fingerprintText = 80
)

// laneHealth sees when a lane itself is broken: several cards that die the same death within a minute say that
// the host or the program is at fault, and then the cards are spared and the lane waits. After the wait one
// card is let through as a probe; the lane is well again when a run of it ends any other way.
type laneHealth struct {
	recent  map[string][]death // by error fingerprint
	until   time.Time
	since   time.Time
	wait    time.Duration
	why     string
	suspect string // the fingerprint for which the lane waits
}

type death struct {
	card string
	at   time.Time
}

// crashed takes one crash and reports whether it is the lane's fault, so that the card is not charged.
func (h *laneHealth) crashed(card, text string, now time.Time) (systemic bool) {
	print := errorFingerprint(text)
	if h.suspect != "" && print == h.suspect {
		h.extend(text, now)
		return true
	}
	if h.recent == nil {
		h.recent = map[string][]death{}
	}
	deaths := slices.DeleteFunc(h.recent[print], func(d death) bool { return now.Sub(d.at) > systemicWindow || d.card == card })
	h.recent[print] = append(deaths, death{card, now})
	maps.DeleteFunc(h.recent, func(_ string, ds []death) bool { return now.Sub(ds[len(ds)-1].at) > systemicWindow })
	if len(h.recent[print]) < systemicCards {
		return false
	}
	h.start(print, text, backoffFirst, now)
	return true
}

// refused takes a start that the host refused: no processes, no memory, no space.
func (h *laneHealth) refused(text string, now time.Time) {
	const print = "host"
	if h.suspect == print {
		h.extend(text, now)
		return
	}
	h.start(print, text, hostFirst, now)
}

func (h *laneHealth) start(print, text string, wait time.Duration, now time.Time) {
	h.suspect, h.why, h.wait, h.since, h.until = print, text, wait, now, now.Add(wait)
	clear(h.recent)
}

func (h *laneHealth) extend(text string, now time.Time) {
	if now.Before(h.until) {
		return // runs that were under way when the wait began
	}
	h.wait = min(2*h.wait, backoffLongest)
	h.why, h.until = text, now.Add(h.wait)
}

// recovered takes a run that ended otherwise, or a start that worked after a refusal.
func (h *laneHealth) recovered(started bool) {
	if started && h.suspect != "host" {
		return // that it starts says nothing about how it ends
	}
	*h = laneHealth{recent: h.recent}
}

// hold says what keeps cards of this lane back now. running is how many of the lane's workers live: after the
// wait there is one probe at a time.
func (h *laneHealth) hold(lane string, running int, now time.Time) *Hold {
	if h == nil || h.suspect == "" {
		return nil
	}
	hold := &Hold{
		Reason: LaneBackoff, Detail: "lane " + lane + " fails as a whole: " + h.why, Since: when(h.since),
		Remedy: "look at the workers' logs and the host; the lane is tried again by itself",
	}
	switch {
	case now.Before(h.until):
		hold.Until = when(h.until)
		return hold
	case running > 0:
		hold.Detail = "lane " + lane + " is being tried with one card: " + h.why
		return hold
	}
	return nil
}

var (
	pidText  = regexp.MustCompile(`\bpid \d+`)
	longTime = regexp.MustCompile(`\d{10,}`)
)

// errorFingerprint makes two crashes comparable: without pids and times, and only the beginning.
func errorFingerprint(text string) string {
	text = longTime.ReplaceAllString(pidText.ReplaceAllString(text, "pid N"), "TS")
	if r := []rune(text); len(r) > fingerprintText {
		text = string(r[:fingerprintText])
	}
	return strconv.Quote(text)
}
