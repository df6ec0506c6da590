package web

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"gatewayd/kanban"
)

// Bounds of what one page of a card shows of what can grow without end. The rest is in the API and in the file.
const (
	logTail      = 32_000 // bytes of the log
	eventsMost   = 60     // of its history
	runsMost     = 40
	commentsMost = 50 // the newest; ?comments=all shows all
)

// cardView is a card with everything around it.
type cardView struct {
	kanban.Detail
	Board    kanban.Info
	Holds    []Hold // all that keeps it from running, the first gate first
	Idle     bool   // nobody dispatches here
	Moves    []kanban.Status
	Parents  []linked
	Children []linked
	Runs     []attempt // the newest first
	MoreRuns int
	Events   []kanban.Event // the newest first
	Earlier  int            // events that are not shown
	Said     int            // comments
	Unsaid   int            // of these, the oldest, which are not shown
	Log      logView
	Findings []kanban.Diagnostic
	Lanes    []string
	Timer    *kanban.Timer
	Now      int64
}

// linked is another card, as a line.
type linked struct {
	ID, Title string
	Status    kanban.Status
}

// attempt is a run, and how long it took or takes.
type attempt struct {
	kanban.Run
	Took int64 // seconds
	End  ending
}

// card answers GET /boards/{board}/tasks/{task}.
func (s *site) card(r *http.Request) (page, error) {
	return s.onBoard(r, func(p *page, info kanban.Info, board *kanban.Board) error {
		p.View = "card"
		detail, err := board.Show(r.Context(), chi.URLParam(r, "task"))
		if err != nil {
			return err
		}
		p.Title = clip(80, detail.Task.Title)
		p.Events += "?task=" + detail.Task.ID
		view := cardView{
			Detail: detail, Board: info, Idle: s.Why == nil, Moves: kanban.Moves(detail.Task.Status), Lanes: s.Lanes, Now: time.Now().Unix(),
		}
		view.past()
		view.Said = len(view.Comments)
		if n := view.Said - commentsMost; n > 0 && r.URL.Query().Get("comments") != "all" {
			view.Unsaid, view.Comments = n, view.Comments[n:]
		}
		if view.Log, err = s.log(info.Slug, detail); err != nil {
			return err
		}
		p.Data = &view
		return s.around(r.Context(), board, &view)
	})
}

// around reads what stands beside the card's own rows.
func (s *site) around(ctx context.Context, board *kanban.Board, v *cardView) (err error) {
	v.Parents, v.Children = lines(ctx, board, v.Detail.Parents), lines(ctx, board, v.Detail.Children)
	if s.Why != nil {
		if v.Holds, err = s.Why.Why(ctx, v.Board.Slug, v.Task.ID); err != nil {
			return err
		}
	}
	if s.Diagnose != nil {
		found, err := s.Diagnose(ctx, board)
		if err != nil {
			return err
		}
		v.Findings = slices.DeleteFunc(found, func(d kanban.Diagnostic) bool { return d.Task != v.Task.ID })
	}
	if v.Task.Status != kanban.StatusScheduled {
		return nil
	}
	timers, err := board.Timers(ctx)
	for _, t := range timers {
		if t.Task == v.Task.ID {
			v.Timer = &t
		}
	}
	return err
}

// past turns runs and history round, so that what happened last is read first.
func (v *cardView) past() {
	for _, run := range slices.Backward(v.Detail.Runs) {
		if len(v.Runs) == runsMost {
			v.MoreRuns = len(v.Detail.Runs) - runsMost
			break
		}
		v.Runs = append(v.Runs, attempt{Run: run, Took: took(run, v.Now), End: endingOf(run)})
	}
	v.Events = slices.Clone(v.Detail.Events[max(0, len(v.Detail.Events)-eventsMost):])
	v.Earlier = len(v.Detail.Events) - len(v.Events)
	slices.Reverse(v.Events)
}

func took(run kanban.Run, now int64) int64 {
	if run.Open() {
		return max(0, now-run.StartedAt)
	}
	return max(0, run.EndedAt-run.StartedAt)
}

// lines names cards by their titles. One that is gone keeps its id.
func lines(ctx context.Context, board *kanban.Board, ids []string) []linked {
	var list []linked
	for _, id := range ids {
		line := linked{ID: id, Title: id, Status: "gone"}
		if t, err := board.Task(ctx, id); err == nil {
			line.Title, line.Status = t.Title, t.Status
		}
		list = append(list, line)
	}
	return list
}

// moveWords are what the buttons say: the verb of the place where there is one.
var moveWords = map[kanban.Status]string{
	kanban.StatusTriage: "Back to triage", kanban.StatusTodo: "To do", kanban.StatusScheduled: "Park", kanban.StatusReady: "Make ready", kanban.StatusBlocked: "Block",
	kanban.StatusReview: "Send to review", kanban.StatusDone: "Complete", kanban.StatusArchived: "Archive",
}

// MoveWord is the button that moves this card there.
func (v *cardView) MoveWord(to kanban.Status) string {
	if to == kanban.StatusReady && (v.Task.Status == kanban.StatusBlocked || v.Task.Status == kanban.StatusScheduled) {
		return "Unblock"
	}
	if v.Task.Status.Satisfied() && to != kanban.StatusArchived {
		return "Reopen as " + string(to)
	}
	if word := moveWords[to]; word != "" {
		return word
	}
	return "Move to " + string(to)
}

// MayBe reports whether a person may bring the card there.
func (v *cardView) MayBe(status kanban.Status) bool {
	return slices.Contains(v.Moves, status) || v.Task.Status == status
}

// Running reports whether a worker has the card.
func (v *cardView) Running() bool { return v.Task.Status == kanban.StatusRunning }
