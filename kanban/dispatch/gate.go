package dispatch

import (
	"fmt"
	"time"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// Candidate is a card that could be started, as the gates see it.
type Candidate struct {
	Board    kanban.Slug
	Task     string
	Assignee string
	Review   bool
	Claimed  string // its claim_lock, which a ready card should not have
	History  History

	GuardedFor string // the guard that the card's history names last
}

// LaneState is a lane as the gates see it.
type LaneState struct {
	Running int   // workers of this lane, all boards
	Missing *Hold // its program is not there or cannot be run
	NoModel bool  // it needs a model and there is only the offline one
	Backoff *Hold
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
	}
	add(s.globalCap())
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
	running := s.State[lane.Name].Running
	if lane.MaxInProgress <= 0 || running < lane.MaxInProgress {
		return nil
	}
	return &Hold{
		Reason: LaneCap, Detail: fmt.Sprintf("lane %s has %d of %d workers", lane.Name, running, lane.MaxInProgress),
		Remedy: "wait, or raise kanban.lanes." + lane.Name + ".max_in_progress",
	}
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
