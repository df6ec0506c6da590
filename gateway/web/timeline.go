package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"gatewayd/kanban"
)

// timelineMost is how many runs are drawn, the newest: the page stays below 150 kB, and says what is left out.
const timelineMost = 150

// stretch is a length of time that is offered.
type stretch struct {
	Name, Word string
	Long, Tick time.Duration
}

func stretches() []stretch {
	return []stretch{
		{"1h", "last hour", time.Hour, 10 * time.Minute},
		{"24h", "last 24 hours", 24 * time.Hour, 3 * time.Hour},
		{"7d", "last 7 days", 7 * 24 * time.Hour, 24 * time.Hour},
	}
}

// stretchOf finds the one that is asked for; a day is what people want to see in the morning.
func stretchOf(name string) stretch {
	for _, s := range stretches() {
		if s.Name == name {
			return s
		}
	}
	return stretches()[1]
}

// timelineView is who ran when, and how it ended.
type timelineView struct {
	Info      kanban.Info
	Stretch   stretch
	Stretches []stretch
	By        string // lane or card
	drawing
	Table   []bar // the newest first
	Legend  []ending
	Left    int // older runs that are not drawn
	Running int
	Failed  int
}

// timeline answers GET /boards/{board}/timeline.
func (s *site) timeline(r *http.Request) (page, error) {
	return s.onBoard(r, func(p *page, info kanban.Info, board *kanban.Board) error {
		p.View, p.Title = "timeline", nameOf(info)+": timeline"
		now, q := time.Now(), r.URL.Query()
		view := timelineView{Info: info, Stretch: stretchOf(q.Get("span")), Stretches: stretches(), By: "lane"}
		if q.Get("by") == "card" {
			view.By = "card"
		}
		from := now.Add(-view.Stretch.Long)
		runs, left, err := board.RunsSince(r.Context(), from.Unix(), timelineMost)
		if err != nil {
			return err
		}
		view.Left = left
		view.fill(runs, axis{from, now})
		p.Data = view
		return nil
	})
}

// fill draws the runs and lists them.
func (v *timelineView) fill(runs []kanban.BoardRun, a axis) {
	for _, run := range runs {
		b := a.bar(run)
		v.Table = append(v.Table, b)
		switch b.End.Tone {
		case "live":
			v.Running++
		case "bad":
			v.Failed++
		}
		if !slices.Contains(v.Legend, b.End) {
			v.Legend = append(v.Legend, b.End)
		}
	}
	slices.SortFunc(v.Legend, func(a, b ending) int { return cmp.Compare(a.Word, b.Word) })
	v.drawing = draw(v.Table, v.By == "card")
	v.Ticks = a.ticks(v.Stretch.Tick)
}

// bar is one run.
type bar struct {
	kanban.BoardRun
	From, Wide float64 // percent of the width
	Y          int
	Took       int64 // seconds
	End        ending
}

// Who is whose run it is.
func (b bar) Who() string { return cmp.Or(b.Profile, "nobody") }

// What is the card's title, or its id where it is gone.
func (b bar) What() string { return clip(90, cmp.Or(b.Title, b.TaskID)) }

// Label is what a bar says to those who point at it or listen.
func (b bar) Label() string {
	text := b.What() + ": " + b.End.Word + " after " + span(b.Took)
	if b.Open() {
		text = b.What() + ": running for " + span(b.Took)
	}
	text += ", " + b.Who() + ", from " + moment(b.StartedAt) + ", run " + strconv.FormatInt(int64(b.ID), 10)
	if b.Error != "" {
		text += ". " + clip(120, b.Error)
	}
	return text
}

// X, W and EndX are places as SVG takes them.
func (b bar) X() string    { return percent(b.From) }
func (b bar) W() string    { return percent(b.Wide) }
func (b bar) EndX() string { return percent(b.From + b.Wide) }

// Room reports whether the shape of how it ended fits in.
func (b bar) Room() bool { return b.Wide >= 2.4 }

func percent(p float64) string { return fmt.Sprintf("%.2f%%", p) }

// axis is the time that is shown.
type axis struct{ from, to time.Time }

func (a axis) at(seconds int64) float64 {
	return min(100, max(0, 100*float64(seconds-a.from.Unix())/max(1, a.to.Sub(a.from).Seconds())))
}

// bar puts a run where its time is. One that still runs goes on to the right edge.
func (a axis) bar(run kanban.BoardRun) bar {
	b := bar{BoardRun: run, Took: took(run.Run, a.to.Unix()), End: endingOf(run.Run), From: a.at(run.StartedAt)}
	end := 100.0
	if !run.Open() {
		end = a.at(run.EndedAt)
	}
	b.From = min(b.From, 99.6) // a run of this second is seen, too
	b.Wide = max(0.2, end-b.From)
	return b
}

type tick struct{ X, Word string }

// ticks are the moments that are named: whole hours or days of the daemon's zone. Near the edges there is no room for words.
func (a axis) ticks(every time.Duration) []tick {
	var list []tick
	_, offset := a.to.Zone()
	zone := time.Duration(offset) * time.Second
	for t := a.from.Add(zone).Truncate(every).Add(every - zone); t.Before(a.to); t = t.Add(every) {
		word := t.Local().Format("15:04")
		if every >= 24*time.Hour {
			word = t.Local().Format("Mon 2")
		}
		if at := a.at(t.Unix()); at > 3 && at < 97 {
			list = append(list, tick{percent(at), word})
		}
	}
	return list
}
