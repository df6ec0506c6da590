package web

import (
	"cmp"
	"slices"
)

// The drawing's heights in pixels. Its widths are percent, so that it fits every window without a script.
const (
	axisHeight = 24
	nameHeight = 18
	rowHeight  = 20
	barHeight  = 16
	laneGap    = 8
)

// drawing is the lanes of a timeline, one below the other.
type drawing struct {
	Lanes  []timeLane
	Ticks  []tick
	Height int
}

// timeLane is the runs of one assignee or card. Runs of the same time have rows of their own.
type timeLane struct {
	Name string
	Y    int // of its line
	Bars []bar
}

// NameY is where the name's letters stand.
func (l timeLane) NameY() int { return l.Y + 13 }

// draw groups the bars by whose they are, or by card, and gives each its place.
func draw(bars []bar, byCard bool) drawing {
	groups := map[string][]bar{}
	for _, b := range bars {
		key := b.Who()
		if byCard {
			key = b.TaskID
		}
		groups[key] = append(groups[key], b)
	}
	d, y := drawing{}, axisHeight
	for _, key := range order(groups, byCard) {
		lane := timeLane{Name: key, Y: y}
		if byCard {
			lane.Name = groups[key][0].What()
		}
		var rows int
		lane.Bars, rows = rowsOf(groups[key], y+nameHeight)
		d.Lanes = append(d.Lanes, lane)
		y += nameHeight + rows*rowHeight + laneGap
	}
	d.Height = y
	return d
}

// order is by name for assignees, and what happened last first for cards.
func order(groups map[string][]bar, byCard bool) []string {
	keys := make([]string, 0, len(groups))
	for key := range groups {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if byCard {
			return cmp.Or(cmp.Compare(groups[b][0].StartedAt, groups[a][0].StartedAt), cmp.Compare(a, b))
		}
		return cmp.Compare(a, b)
	})
	return keys
}

// rowsOf gives each run the first row that is free at its time, and the number of rows.
func rowsOf(bars []bar, y int) ([]bar, int) {
	slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	var free []float64 // where each row is free again
	for i := range bars {
		row := slices.IndexFunc(free, func(x float64) bool { return x <= bars[i].From })
		if row < 0 {
			row, free = len(free), append(free, 0)
		}
		free[row] = bars[i].From + bars[i].Wide + .1
		bars[i].Y = y + row*rowHeight
	}
	return bars, len(free)
}
