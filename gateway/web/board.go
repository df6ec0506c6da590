package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gatewayd/kanban"
)

// columnMost is how many cards of a column a board shows before it says how many more there are: eight full columns then stay below
// 150 kB, and nobody reads further down anyway.
const columnMost = 30

// boardView is a board as it is looked at.
type boardView struct {
	Info      kanban.Info
	Boards    []kanban.Info // for the switcher
	Columns   []column
	Filter    filter
	Assignees []string
	Tenants   []string
	Lanes     []string
	Shown     int // cards that the filter lets through
	Pause     *kanban.Pause
	Idle      bool                // nobody dispatches here
	Findings  []kanban.Diagnostic // about the board as a whole
}

// column is one status of it.
type column struct {
	Name  kanban.Status
	Moves string // where a person may move a card from here
	Cards []face
	Total int
	More  string // where the next cards of it are; "" = all are shown
	Next  int    // how many more that shows
}

// face is a card as it lies on the board.
type face struct {
	kanban.Face
	When  int64 // seconds: how long it runs, since it was done, or since it was made
	Hold  *Hold
	Worst kanban.Severity
}

// filter is what people look for. It is all in the address, so a view can be kept and sent.
type filter struct {
	Text, Assignee, Tenant string
	Archived               bool
	more                   map[kanban.Status]int // how far down a column is shown
	query                  url.Values
}

func filterOf(q url.Values) filter {
	f := filter{
		Text: strings.TrimSpace(q.Get("q")), Assignee: q.Get("assignee"), Tenant: q.Get("tenant"), Archived: q.Get("archived") != "",
		more: map[kanban.Status]int{}, query: q,
	}
	for _, status := range kanban.Statuses() {
		n, err := strconv.Atoi(q.Get("show." + string(status)))
		f.more[status] = columnMost
		if err == nil && n > columnMost {
			f.more[status] = n
		}
	}
	return f
}

// Any reports whether anything is filtered.
func (f filter) Any() bool { return f.Text != "" || f.Assignee != "" || f.Tenant != "" }

// matches looks for the text in what a person could mean by it.
func (f filter) matches(t kanban.Task) bool {
	if f.Text == "" {
		return true
	}
	text := strings.ToLower(f.Text)
	return slices.ContainsFunc([]string{t.ID, t.Title, t.Body, t.Assignee, t.Tenant}, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

// further is the address that shows a column to n cards.
func (f filter) further(status kanban.Status, n int) string {
	q := url.Values{}
	for key, values := range f.query {
		q[key] = values
	}
	q.Set("show."+string(status), strconv.Itoa(n))
	return "?" + q.Encode() + "#col-" + string(status)
}

// board answers GET /boards/{board}.
func (s *site) board(r *http.Request) (page, error) {
	return s.onBoard(r, func(p *page, info kanban.Info, board *kanban.Board) error {
		p.View, p.Script = "board", "board"
		view := boardView{Info: info, Filter: filterOf(r.URL.Query()), Idle: s.Why == nil}
		found, err := board.Columns(r.Context(), kanban.Filter{Assignee: view.Filter.Assignee, Tenant: view.Filter.Tenant, Archived: view.Filter.Archived})
		if err != nil {
			return err
		}
		if view.Findings, err = s.findings(r.Context(), board, found); err != nil {
			return err
		}
		view.Tenants, view.Assignees, view.Lanes = found.Tenants, found.Assignees, union(s.Lanes, found.Assignees)
		view.fill(found)
		if err := s.explain(r.Context(), info.Slug, view.Columns); err != nil {
			return err
		}
		if view.Boards, err = s.Boards.Boards(); err != nil {
			return err
		}
		view.Pause, err = board.Paused(r.Context())
		p.Data = view
		return err
	})
}

// fill puts the cards that are looked for into columns, as many of each as are shown.
func (v *boardView) fill(found kanban.Columns) {
	for _, c := range found.Columns {
		out := column{Name: c.Name, Moves: words(kanban.Moves(c.Name))}
		for _, f := range c.Tasks {
			if v.Filter.matches(f.Task) {
				out.Cards = append(out.Cards, newFace(f, found.Now))
			}
		}
		if c.Name.Satisfied() { // what ended is read from its end
			slices.SortStableFunc(out.Cards, func(a, b face) int { return cmp.Compare(b.Task.CompletedAt, a.Task.CompletedAt) })
		}
		out.Total = len(out.Cards)
		v.Shown += out.Total
		if most := max(v.Filter.more[c.Name], columnMost); out.Total > most {
			out.Cards, out.Next = out.Cards[:most], min(out.Total-most, 5*columnMost)
			out.More = v.Filter.further(c.Name, most+out.Next)
		}
		v.Columns = append(v.Columns, out)
	}
}

func words(list []kanban.Status) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, " ")
}

func newFace(f kanban.Face, now int64) face {
	out := face{Face: f, When: f.Age}
	switch {
	case f.Task.Status.Satisfied() && f.Task.CompletedAt != 0:
		out.When = max(0, now-f.Task.CompletedAt)
	case f.Task.Status == kanban.StatusRunning:
		out.When = f.Began
	}
	if f.Warnings != nil {
		out.Worst = f.Warnings.Severity
	}
	return out
}

// findings notes at each card what is wrong with it and gives what is wrong with the board.
func (s *site) findings(ctx context.Context, board *kanban.Board, columns kanban.Columns) ([]kanban.Diagnostic, error) {
	if s.Diagnose == nil {
		return nil, nil
	}
	found, err := s.Diagnose(ctx, board)
	columns.Note(found)
	return slices.DeleteFunc(found, func(d kanban.Diagnostic) bool { return d.Task != "" }), err
}

// explain puts the first reason at each card that waits.
func (s *site) explain(ctx context.Context, slug kanban.Slug, columns []column) error {
	if s.Why == nil {
		return nil
	}
	var waiting []string
	for _, c := range columns {
		if c.Name.Satisfied() || c.Name == kanban.StatusRunning || c.Name == kanban.StatusTriage {
			continue // their column says it all
		}
		for _, f := range c.Cards {
			waiting = append(waiting, f.Task.ID)
		}
	}
	holds, err := s.Why.Firsts(ctx, slug, waiting)
	for _, c := range columns {
		for i := range c.Cards {
			if hold, held := holds[c.Cards[i].Task.ID]; held {
				c.Cards[i].Hold = &hold
			}
		}
	}
	return err
}

// union is both lists without twins, in order.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
