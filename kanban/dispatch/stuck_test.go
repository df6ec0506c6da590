package dispatch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/kanban"
)

// A reason that is added without saying what it means would be a word that nobody can look up.
func TestEveryReasonSaysWhatItMeansAndWhatToDo(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	must(t, err)
	seen := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		must(t, err)
		seen += checkReasons(t, file)
	}
	if seen < 25 {
		t.Errorf("only %d reasons were found in the source", seen)
	}
}

// checkReasons looks for the constants of the type and gives how many there are.
func checkReasons(t *testing.T, file *ast.File) (seen int) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
			return true
		}
		for _, value := range spec.Values {
			word := Reason(strings.Trim(value.(*ast.BasicLit).Value, `"`))
			seen++
			if m := meanings[word]; m.Text == "" || m.Remedy == "" || m.Kept && m.Parked {
				t.Errorf("%s: %+v", word, m)
			}
		}
		return true
	})
	return seen
}

func TestAStuckDispatcherIsToldAfterSixTicksAndEveryFiveMinutes(t *testing.T) {
	var s stuckness
	now := time.Unix(1_800_000_000, 0)
	tick := func(counts map[Reason]int) say { now = now.Add(time.Minute); return s.tick(counts, now) }
	missing := map[Reason]int{ProgramMissing: 2, Unassigned: 5}
	for i := range 5 {
		if got := tick(missing); got != sayNothing || s.seen() != nil {
			t.Fatalf("tick %d says %v", i+1, got)
		}
	}
	if got := tick(missing); got != sayWarning || s.seen().Ticks != 6 || s.seen().Kept || s.seen().String() != "ready cards for 6 ticks in a row and no worker started: 2 program_missing" {
		t.Fatalf("the sixth says %v: %v", got, s.seen())
	}
	for i, want := range []say{sayNothing, sayNothing, sayNothing, sayNothing, sayWarning, sayNothing} {
		if got := tick(missing); got != want {
			t.Errorf("%d minutes later: %v, want %v", i+1, got, want)
		}
	}
	s.started = 1
	if got := tick(missing); got != sayOver || s.seen() != nil {
		t.Errorf("after a start: %v, %v", got, s.seen())
	}
}

func TestCardsThatWaitForKnownReasonsAreToldOncePerChange(t *testing.T) {
	var s stuckness
	now := time.Unix(1_800_000_000, 0)
	tick := func(counts map[Reason]int) say { now = now.Add(time.Minute); return s.tick(counts, now) }
	for range 5 {
		tick(map[Reason]int{GlobalCap: 3})
	}
	for i, c := range []struct {
		counts map[Reason]int
		want   say
	}{
		{map[Reason]int{GlobalCap: 3}, sayOnce},
		{map[Reason]int{GlobalCap: 9}, sayNothing}, // other numbers are no change
		{map[Reason]int{GlobalCap: 9, LaneCap: 1}, sayOnce},
		{map[Reason]int{GlobalCap: 9, ProgramMissing: 1}, sayWarning},
		{map[Reason]int{GlobalCap: 9}, sayOnce},
		{map[Reason]int{Unassigned: 9}, sayOver}, // nobody's to start
		{map[Reason]int{Unassigned: 9}, sayNothing},
	} {
		if got := tick(c.counts); got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}

func TestStatusNamesWhatHoldsCardsAndWhoHoldsTheLocks(t *testing.T) {
	h := newHouse(t)
	b := h.board(kanban.DefaultSlug)
	card(t, b, "nobody")
	id := card(t, b, "agent")
	d := h.dispatcher()
	for range stuckTicks {
		_, err := d.Tick(t.Context())
		must(t, err)
	}
	s := d.StatusWithLocks()
	if s.Held[NoLane] != 1 || s.Held[NoModel] != 1 || s.Stuck == nil || s.Stuck.Kept || s.Stuck.Reasons[NoModel] != 1 || s.Stuck.Reasons[NoLane] != 0 {
		t.Errorf("held %v, stuck %+v", s.Held, s.Stuck)
	}
	if n := h.log.count("dispatcher is stuck"); n != 1 {
		t.Errorf("said %d times", n)
	}
	lock, err := kanban.TryDispatchLock(b.Path())
	must(t, err)
	defer lock.Close()
	s = d.StatusWithLocks()
	if l := s.Boards[0].Lock; l == nil || !l.Held || l.PID == 0 || l.From == nil {
		t.Errorf("a lock that is held: %+v", l)
	}
	why, err := d.Why(t.Context(), kanban.DefaultSlug, id)
	must(t, err)
	for _, hold := range why.Holds {
		if hold.Since == nil || hold.Remedy == "" {
			t.Errorf("a hold without since or remedy: %+v", hold)
		}
	}
}

// Whoever repairs what is named first must not learn of the next reason only then.
func TestWhyHidesNoHoldBehindTheFirst(t *testing.T) {
	h := newHouse(t)
	h.config.MaxInProgress = 1
	f := CardFacts{Card: kanban.Task{ID: "t_1", Status: kanban.StatusReady, Assignee: "agent", CreatedAt: 7}, Entered: 7, Candidate: Candidate{Task: "t_1", Assignee: "agent"}}
	s := h.dispatcher().situation(time.Now())
	s.State["agent"] = LaneState{NoModel: true, Missing: &Hold{Reason: ProgramMissing}, Backoff: &Hold{Reason: LaneBackoff}}
	s.Dispatcher, s.Board, s.InProgress = &Hold{Reason: NotLeader}, &Hold{Reason: BoardLocked}, 1
	want := []Reason{NotLeader, BoardLocked, ProgramMissing, NoModel, LaneBackoff, GlobalCap}
	why := Explain(f, s)
	if got := reasons(why); len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i, hold := range why.Holds {
		if hold.Reason != want[i] || hold.Remedy == "" || hold.Since == nil {
			t.Errorf("%d: %+v", i, hold)
		}
	}
}

func TestAScheduledCardSaysWhenItIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		timer *kanban.Timer
		until int64
		says  string
	}{
		"no time": {nil, 0, "no time is set"},
		"once":    {&kanban.Timer{Due: 4_000_000_000}, 4_000_000_000, "until its time comes"},
		"rule":    {&kanban.Timer{Due: 4_000_000_000, Rule: "@daily", LastCopy: "t_2"}, 4_000_000_000, "@daily; it is never started itself; its newest copy is t_2"},
	} {
		h := scheduled(CardFacts{Card: kanban.Task{ID: "t_1"}, Timer: c.timer})
		if !strings.Contains(h.Detail, c.says) || h.Remedy == "" || (h.Until == nil) != (c.until == 0) || h.Until != nil && h.Until.Unix() != c.until {
			t.Errorf("%s: %+v", name, h)
		}
	}
}
