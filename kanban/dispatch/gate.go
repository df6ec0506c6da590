package dispatch

import (
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// Candidate is a card that could be started, as the gates see it.
type Candidate struct {
	Board    kanban.Slug
	Task     string
	Assignee string
	Review   bool
	Priority int64
	Claimed  string // its claim_lock, which a ready card should not have
	History  History

	GuardedFor string // the guard that the card's history names last
}

// LaneState is a lane as the gates see it.
type LaneState struct {
	Missing *Hold // its program is not there or cannot be run
	NoModel bool  // it needs a model and there is only the offline one
	Backoff *Hold
}

// BoardState is a board as the gates see it.
type BoardState struct {
	Running int           // workers of its cards
	Most    int           // 0 = no limit
	Pause   *kanban.Pause // nil = cards may start
}

// Situation is everything else that decides whether a card starts now. It is data, so that the tick, `why` and
// the tests ask the same function.
type Situation struct {
	Now             time.Time
	Dispatcher      *Hold // off, or another process leads
	Board           *Hold // disabled, unavailable, locked
	Lanes           *worker.Lanes
	State           map[string]LaneState // by lane name
	DefaultAssignee string
	Limits          Limits
	InProgress      int               // over all boards
	MaxInProgress   int               // 0 = no limit
	Alive           map[string]string // board/task → the worker of an earlier run that still lives
	Boards          map[kanban.Slug]BoardState
	Running         map[string]int // workers by lane, all boards
	Reviewers       int            // of these, those that review
	Pools           map[string]int // kanban.pools
	ReviewOff       bool
	Memory          *Hold
}

// started counts a card that was just started.
func (s *Situation) started(c Candidate, lane worker.Lane) {
	s.InProgress++
	s.Running[lane.Name]++
	b := s.Boards[c.Board]
	b.Running++
	s.Boards[c.Board] = b
	if c.Review {
		s.Reviewers++
	}
}

// Gates gives all that holds the card back, the first gate first; none means that it starts.
func Gates(c Candidate, s Situation) []Hold {
	var holds []Hold
	add := func(h *Hold) {
		if h != nil {
			holds = append(holds, *h)
		}
	}
	add(s.Dispatcher)
	add(s.Board)
	add(PauseHold(s.Boards[c.Board].Pause))
	add(s.review(c))
	lane, unfit := s.lane(c)
	add(unfit)
	if unfit == nil {
		for _, h := range s.laneHolds(lane) {
			add(h)
		}
	}
	add(Guard(c.History, s.Limits, s.Now).Hold)
	add(s.previous(c))
	if unfit == nil {
		add(s.laneCap(lane))
		add(s.poolCap(lane))
	}
	add(s.boardCap(c.Board))
	add(s.globalCap())
	add(s.Memory)
	return holds
}

// lane finds the card's lane, or says why it has none. A default assignee counts only if it names a lane.
func (s Situation) lane(c Candidate) (worker.Lane, *Hold) {
	assignee := c.Assignee
	if assignee == "" && !c.Review {
		assignee = s.DefaultAssignee
	}
	if assignee == "" {
		return worker.Lane{}, &Hold{Reason: Unassigned, Detail: "the card has no assignee", Remedy: "assign it to a lane, or set kanban.default_assignee"}
	}
	if lane, ok := s.Lanes.Lookup(assignee); ok {
		return lane, nil
	}
	return worker.Lane{}, s.noLane(assignee)
}

func (s Situation) noLane(assignee string) *Hold {
	remedy := "add kanban.lanes." + assignee + ", assign the card to a lane that is there, or work on it by hand"
	if near := s.Lanes.Nearest(assignee); near != "" {
		remedy = fmt.Sprintf("did you mean %s? Otherwise %s", near, remedy)
	}
	return &Hold{Reason: NoLane, Detail: "no lane is called " + assignee, Remedy: remedy}
}

func (s Situation) laneHolds(lane worker.Lane) []*Hold {
	state := s.State[lane.Name]
	holds := []*Hold{state.Missing}
	if lane.NeedsModel && state.NoModel {
		holds = append(holds, &Hold{Reason: NoModel, Detail: fmt.Sprintf("lane %s needs a model, and there is only the offline one", lane.Name), Remedy: "set model.base_url, or start a local model server"})
	}
	return append(holds, state.Backoff)
}

// previous: a card whose last worker lives is not started again, whatever its row says.
func (s Situation) previous(c Candidate) *Hold {
	id, alive := s.Alive[aliveKey(c.Board, c.Task)]
	if !alive {
		return nil
	}
	return &Hold{Reason: PreviousWorker, Detail: "the worker of an earlier run is still ending (" + id + ")", Remedy: "wait; it has been asked to end"}
}

func (s Situation) laneCap(lane worker.Lane) *Hold {
	running := s.Running[lane.Name]
	if lane.MaxInProgress <= 0 || running < lane.MaxInProgress {
		return nil
	}
	return &Hold{
		Reason: LaneCap, Detail: fmt.Sprintf("lane %s has %d of %d workers", lane.Name, running, lane.MaxInProgress),
		Remedy: "wait, or raise kanban.lanes." + lane.Name + ".max_in_progress",
	}
}

// poolCap counts the workers of all lanes that share the pool.
func (s Situation) poolCap(lane worker.Lane) *Hold {
	most := s.Pools[lane.Pool]
	if lane.Pool == "" || most <= 0 {
		return nil
	}
	taken := 0
	for name, n := range s.Running {
		if other, ok := s.Lanes.Lookup(name); ok && other.Pool == lane.Pool {
			taken += n
		}
	}
	if taken < most {
		return nil
	}
	return &Hold{
		Reason: PoolCap, Detail: fmt.Sprintf("pool %s has %d of %d places taken", lane.Pool, taken, most),
		Remedy: "wait, or raise kanban.pools." + lane.Pool,
	}
}

func (s Situation) boardCap(slug kanban.Slug) *Hold {
	b := s.Boards[slug]
	if b.Most <= 0 || b.Running < b.Most {
		return nil
	}
	return &Hold{
		Reason: BoardCap, Detail: fmt.Sprintf("board %s has %d of %d workers", slug, b.Running, b.Most),
		Remedy: "wait, or raise kanban.max_per_board or max_in_progress of the board",
	}
}

func (s Situation) review(c Candidate) *Hold {
	if !c.Review || !s.ReviewOff {
		return nil
	}
	return &Hold{Reason: ReviewOff, Detail: "kanban.review_dispatch is false: people review", Remedy: "review it by hand, or set kanban.review_dispatch to true"}
}

// PauseHold is what a pause means for a card; nil without one.
func PauseHold(p *kanban.Pause) *Hold {
	if p == nil || mutation.On("pause-is-not-asked") {
		return nil
	}
	word := "is paused"
	if p.Mode == kanban.PauseDrain {
		word = "is being drained"
	}
	if p.By != "" {
		word += " by " + p.By
	}
	if p.Reason != "" {
		word += ": " + p.Reason
	}
	return &Hold{Reason: BoardPaused, Detail: "the board " + word, Since: at(p.Since), Remedy: "gatewayd kanban resume"}
}

func (s Situation) globalCap() *Hold {
	if s.MaxInProgress <= 0 || s.InProgress < s.MaxInProgress {
		return nil
	}
	return &Hold{
		Reason: GlobalCap, Detail: fmt.Sprintf("%d of %d workers are running", s.InProgress, s.MaxInProgress),
		Remedy: "wait, or raise kanban.max_in_progress",
	}
}
