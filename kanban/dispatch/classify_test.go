package dispatch

import (
	"testing"
	"time"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

func TestClassify(t *testing.T) {
	type want struct {
		outcome, event                   string
		complete, count, trip, violation bool
	}
	exited := func(code int) worker.Exit { return worker.Exit{Kind: worker.Exited, Code: code, PID: 9} }
	crash := want{outcome: kanban.OutcomeCrashed, event: kanban.EventCrashed, count: true}
	for name, c := range map[string]struct {
		exit   worker.Exit
		ending worker.Ending
		cause  Cause
		want   want
	}{
		"command, 0":            {exited(0), worker.ByExit, NoCause, want{outcome: kanban.OutcomeCompleted, event: kanban.EventCompleted, complete: true}},
		"agent, 0":              {exited(0), worker.ByWorker, NoCause, want{outcome: kanban.OutcomeCrashed, event: kanban.EventProtocolViolation, violation: true}},
		"1":                     {exited(1), worker.ByExit, NoCause, crash},
		"75":                    {exited(75), worker.ByExit, NoCause, want{outcome: kanban.OutcomeRateLimited, event: kanban.EventRateLimited}},
		"124":                   {exited(124), worker.ByWorker, NoCause, want{outcome: kanban.OutcomeTimedOut, event: kanban.EventTimedOut, count: true}},
		"78":                    {exited(78), worker.ByWorker, NoCause, want{outcome: kanban.OutcomeCrashed, event: kanban.EventCrashed, count: true, trip: true}},
		"signal":                {worker.Exit{Kind: worker.Signaled, Signal: 9}, worker.ByExit, NoCause, crash},
		"deadline":              {worker.Exit{Kind: worker.Deadline}, worker.ByExit, NoCause, want{outcome: kanban.OutcomeTimedOut, event: kanban.EventTimedOut, count: true}},
		"keeper lost":           {worker.Exit{Kind: worker.Lost}, worker.ByExit, NoCause, crash},
		"host ended":            {worker.Exit{Kind: worker.HostEnded}, worker.ByExit, NoCause, want{outcome: kanban.OutcomeReclaimed, event: kanban.EventReclaimed}},
		"stopped, time up":      {worker.Exit{Kind: worker.Stopped}, worker.ByExit, TimeUp, want{outcome: kanban.OutcomeTimedOut, event: kanban.EventTimedOut, count: true}},
		"stopped, stale":        {worker.Exit{Kind: worker.Stopped}, worker.ByExit, NoSign, want{outcome: kanban.OutcomeStale, event: kanban.EventStale}},
		"stopped, claim over":   {worker.Exit{Kind: worker.Stopped}, worker.ByExit, ClaimOver, want{outcome: kanban.OutcomeReclaimed, event: kanban.EventReclaimed, count: true}},
		"stopped by a person":   {worker.Exit{Kind: worker.Stopped}, worker.ByExit, NoCause, want{outcome: kanban.OutcomeReclaimed, event: kanban.EventReclaimed}},
		"stopped 0 is not done": {worker.Exit{Kind: worker.Stopped, Code: 0}, worker.ByExit, TimeUp, want{outcome: kanban.OutcomeTimedOut, event: kanban.EventTimedOut, count: true}},
		"unknown":               {worker.Exit{}, worker.ByExit, NoCause, crash},
	} {
		t.Run(name, func(t *testing.T) {
			v := Classify(c.exit, c.ending, c.cause, time.Minute)
			got := want{v.Outcome, v.Event, v.Complete, v.Count, v.TripNow && v.Sticky, v.Protocol}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if !v.Complete && v.Error == "" {
				t.Error("the card would not say why")
			}
		})
	}
}
