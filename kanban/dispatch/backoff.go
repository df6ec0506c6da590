package dispatch

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/kanban"
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
	seen    time.Time
}

// death is a worker's crash soon after its start.
type death struct {
	board kanban.Slug
	task  string
	run   kanban.RunID
	at    time.Time
}

// crashed takes one crash and reports whether it is the lane's fault, so that the card is not charged. The one that shows
// it names those before it, whose cards were charged.
func (h *laneHealth) crashed(d death, text string) (systemic bool, charged []death) {
	h.seen = d.at
	print := errorFingerprint(text)
	if h.suspect != "" && print == h.suspect {
		h.extend(text, d.at)
		return true, nil
	}
	if h.recent == nil {
		h.recent = map[string][]death{}
	}
	before := slices.DeleteFunc(h.recent[print], func(old death) bool { return d.at.Sub(old.at) > systemicWindow })
	h.recent[print] = append(before, d)
	maps.DeleteFunc(h.recent, func(_ string, ds []death) bool { return d.at.Sub(ds[len(ds)-1].at) > systemicWindow })
	if cardsOf(h.recent[print]) < systemicCards {
		return false, nil
	}
	h.start(print, text, backoffFirst, d.at)
	return true, before
}

func cardsOf(deaths []death) int {
	cards := map[string]bool{}
	for _, d := range deaths {
		cards[aliveKey(d.board, d.task)] = true
	}
	return len(cards)
}

// spare takes back what the first crashes of a lane's failure counted against their cards.
func (d *Dispatcher) spare(ctx context.Context, deaths []death, lane string) {
	if mutation.On("first-cards-stay-charged") {
		return
	}
	for _, dead := range deaths {
		b := d.boards[dead.board]
		if b == nil || b.handle == nil {
			continue // what it counted stays: its board is not to be had
		}
		spared, err := b.handle.Spare(ctx, dead.task, dead.run, "lane "+lane+" fails as a whole")
		if stored(err) != nil {
			b.log.Warn("failure of a spared card stays counted", "task", dead.task, "run", dead.run, "error", err)
		} else if spared {
			b.wrote = true
			d.Wake(b.slug)
		}
	}
}

// rememberFor is how far back a new dispatcher looks for how its lanes fare: a lane that fails is tried at least so often.
const rememberFor = 4 * backoffLongest

// recallLanes learns from the runs that ended before this process began which lanes fail as a whole, so that a restart
// does not let all their cards run into it again. It is done once for each board; live ends tell the rest.
func (d *Dispatcher) recallLanes(ctx context.Context, b *board, now time.Time) {
	if b.recalled || mutation.On("back-off-is-forgotten") {
		return
	}
	runs, err := b.handle.RecentEnds(ctx, now.Add(-rememberFor).Unix())
	if err != nil {
		return // the tick that follows meets the same error and says so
	}
	b.recalled = true
	for _, r := range runs {
		if lane, ok := d.tuned().Lanes.Lookup(r.Profile); ok && r.WorkerPID != 0 {
			d.healthOf(lane.Name).recall(b.slug, r)
		}
	}
}

// recall takes an end as conclude takes it, from its row. What ended before something that is known already is old news.
func (h *laneHealth) recall(board kanban.Slug, r kanban.Run) {
	ended, ran := epoch(r.EndedAt), time.Duration(r.EndedAt-r.StartedAt)*time.Second
	crash := r.Outcome == kanban.OutcomeCrashed && r.Metadata == nil && !strings.Contains(r.Error, configText)
	switch {
	case ended.Before(h.seen), r.Outcome == kanban.OutcomeReclaimed:
	case crash && ran < quickDeath:
		h.crashed(death{board, r.TaskID, r.ID, ended}, r.Error)
	default:
		h.recovered(false)
		h.seen = ended
	}
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
	*h = laneHealth{recent: h.recent, seen: h.seen}
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
