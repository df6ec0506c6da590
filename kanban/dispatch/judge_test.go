package dispatch

import (
	"testing"
	"time"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

var (
	noon  = time.Unix(1_800_000_000, 0)
	rules = Rules{TTL: 900 * time.Second, CrashGrace: 30 * time.Second, StaleTimeout: 4 * time.Hour}
)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func TestJudge(t *testing.T) {
	fresh := Open{Task: "t", Run: 1, Lock: "h:1", PID: 9, Started: ago(time.Minute), Expires: noon.Add(10 * time.Minute)}
	with := func(change func(*Open)) Open { o := fresh; change(&o); return o }
	for name, c := range map[string]struct {
		o     Open
		s     Sight
		act   Act
		cause Cause
		event string
		count bool
	}{
		"alive":                        {o: fresh, s: Sight{Attached: true, Alive: true}},
		"alive, claim half over":       {o: with(func(o *Open) { o.Expires = noon.Add(7 * time.Minute) }), s: Sight{Alive: true}, act: Extend},
		"alive, claim over":            {o: with(func(o *Open) { o.Expires = ago(time.Second) }), s: Sight{Alive: true}, act: Extend},
		"alive, silent, claim over":    {o: with(func(o *Open) { o.Expires, o.Heartbeat = ago(1), ago(time.Hour) }), s: Sight{Alive: true}, act: Stop, cause: ClaimOver},
		"alive, silent, claim holds":   {o: with(func(o *Open) { o.Expires, o.Heartbeat = noon.Add(1), ago(time.Hour) }), s: Sight{Alive: true}},
		"a command has no heartbeat":   {o: with(func(o *Open) { o.Expires, o.Heartbeat = ago(1), ago(time.Hour) }), s: Sight{Alive: true, Ending: worker.ByExit}, act: Extend},
		"too long":                     {o: with(func(o *Open) { o.Limit = 54 * time.Second }), s: Sight{Alive: true}, act: Stop, cause: TimeUp},
		"keeper's own deadline first":  {o: with(func(o *Open) { o.Limit = 56 * time.Second }), s: Sight{Alive: true}},
		"stale":                        {o: with(func(o *Open) { o.Started = ago(4 * time.Hour) }), s: Sight{Alive: true}, act: Stop, cause: NoSign},
		"stale, but a sign":            {o: with(func(o *Open) { o.Started, o.Heartbeat = ago(5*time.Hour), ago(time.Minute) }), s: Sight{Alive: true}},
		"a command is never stale":     {o: with(func(o *Open) { o.Started = ago(9 * time.Hour) }), s: Sight{Alive: true, Ending: worker.ByExit}},
		"asked, in its grace":          {o: fresh, s: Sight{Alive: true, Cause: TimeUp, Asked: ago(4 * time.Second)}},
		"survived, claim near its end": {o: with(func(o *Open) { o.Expires = noon.Add(time.Second) }), s: Sight{Alive: true, Cause: TimeUp, Asked: ago(time.Minute)}, act: Postpone, cause: TimeUp},
		"survived, claim long":         {o: fresh, s: Sight{Alive: true, Cause: TimeUp, Asked: ago(time.Minute)}},
		"starting, claim half over":    {o: with(func(o *Open) { o.Expires = ago(1) }), s: Sight{Attached: true, Starting: true}, act: Extend},
		"keeper will tell":             {o: with(func(o *Open) { o.Started = ago(time.Hour) }), s: Sight{Attached: true}},
		"gone":                         {o: fresh, act: End, event: kanban.EventCrashed, count: true},
		"gone, claimer judges":         {o: fresh, s: Sight{Claimer: true}},
		"gone, claimer, claim over":    {o: with(func(o *Open) { o.Expires = ago(0) }), s: Sight{Claimer: true}, act: End, event: kanban.EventCrashed, count: true},
		"gone, clock was set back":     {o: with(func(o *Open) { o.Started = noon.Add(100 * time.Hour) }), act: End, event: kanban.EventCrashed, count: true},
		"a stop is wanted":             {o: fresh, s: Sight{Alive: true, Wanted: true, Claimer: true}, act: Stop, cause: OperatorOf},
		"wanted, and gone by itself":   {o: fresh, s: Sight{Wanted: true}, act: End, event: kanban.EventReclaimed},
		"asked, and gone":              {o: fresh, s: Sight{Cause: TimeUp, Asked: ago(time.Second)}, act: End, event: kanban.EventTimedOut, count: true},
		"asked, and survived":          {o: fresh, s: Sight{Alive: true, Cause: NoSign, Asked: ago(time.Second), Survived: true}, act: Postpone, cause: NoSign},
		"host restarted":               {o: with(func(o *Open) { o.Started = ago(0) }), s: Sight{HostEnded: true}, act: End, event: kanban.EventReclaimed},
		"remote":                       {o: with(func(o *Open) { o.Started = ago(time.Hour) }), s: Sight{Remote: true}},
		"remote, claim over":           {o: with(func(o *Open) { o.Expires = ago(0) }), s: Sight{Remote: true}, act: End, event: kanban.EventReclaimed, count: true},
		"never started":                {o: with(func(o *Open) { o.PID = 0 }), s: Sight{Dispatched: true}, act: End, event: kanban.EventReclaimed},
		"never started, in its grace":  {o: with(func(o *Open) { o.PID, o.Started = 0, ago(29*time.Second) }), s: Sight{Dispatched: true}},
		"claimed by hand":              {o: with(func(o *Open) { o.PID = 0 })},
		"claimed by hand, claim over":  {o: with(func(o *Open) { o.PID, o.Expires = 0, ago(0) }), act: End, event: kanban.EventReclaimed, count: true},
		"half a claim":                 {o: with(func(o *Open) { o.Lock = "" }), act: Reconcile},
		"no expiry":                    {o: with(func(o *Open) { o.Expires = time.Time{} }), act: Reconcile},
		"half a claim, alive":          {o: with(func(o *Open) { o.Lock = "" }), s: Sight{Alive: true}},
	} {
		t.Run(name, func(t *testing.T) {
			j := Judge(c.o, c.s, rules, noon)
			if j.Act != c.act || j.Cause != c.cause || j.Verdict.Event != c.event || j.Verdict.Count != c.count {
				t.Errorf("got %+v", j)
			}
			if (j.Act == Leave || j.Act == Extend) && !(c.s.Attached && !c.s.Alive && !c.s.Starting) && !j.Again.After(noon) {
				t.Errorf("nothing would look at it again: %+v", j)
			}
		})
	}
}

func TestCrashGraceCountsFromTheRunsStart(t *testing.T) {
	grace := Rules{TTL: 900 * time.Second, CrashGrace: 5 * time.Second}
	gone := func(age time.Duration) Judgement {
		return Judge(Open{Task: "t", Lock: "h:1", PID: 9, Started: ago(age), Expires: noon.Add(time.Hour)}, Sight{}, grace, noon)
	}
	if j := gone(3 * time.Second); j.Act != Leave || !j.Again.Equal(noon.Add(2*time.Second)) {
		t.Errorf("3 s: %+v", j)
	}
	if j := gone(6 * time.Second); j.Act != End {
		t.Errorf("6 s: %+v", j)
	}
	grace.CrashGrace = 0
	if j := gone(0); j.Act != End {
		t.Errorf("a grace of 0 waits: %+v", j)
	}
	if j := Judge(Open{Task: "t", Lock: "h:1", PID: 9, Expires: noon.Add(time.Hour)}, Sight{}, rules, noon); j.Act != End {
		t.Errorf("without any start there is no grace: %+v", j)
	}
}
