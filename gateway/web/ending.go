package web

import (
	"strings"

	"gatewayd/kanban"
)

// ending is how a run ended, by word, shape and tone: nobody has to see a colour to know.
type ending struct {
	Word, Mark, Tone string
}

var endings = map[string]ending{
	kanban.OutcomeCompleted:   {"completed", "done", "good"},
	kanban.OutcomeReview:      {"review requested", "review", "good"},
	kanban.OutcomeChanges:     {"changes requested", "back", "plain"},
	kanban.OutcomeScheduled:   {"scheduled", "scheduled", "plain"},
	kanban.OutcomeReclaimed:   {"reclaimed", "back", "plain"},
	kanban.OutcomeRateLimited: {"rate limited", "wait", "warn"},
	kanban.OutcomeBlocked:     {"blocked", "blocked", "warn"},
	kanban.OutcomeStale:       {"stale", "wait", "bad"},
	kanban.OutcomeTimedOut:    {"timed out", "scheduled", "bad"},
	kanban.OutcomeCrashed:     {"crashed", "cross", "bad"},
	kanban.OutcomeSpawnFailed: {"not started", "cross", "bad"},
	kanban.OutcomeGaveUp:      {"gave up", "cross", "bad"},
}

func endingOf(run kanban.Run) ending {
	if run.Open() {
		return ending{"running", "running", "live"}
	}
	if e, known := endings[run.Outcome]; known {
		return e
	}
	word := strings.ReplaceAll(run.Outcome, "_", " ")
	if word == "" {
		word = "ended, nothing is known of how"
	}
	return ending{word, "other", "plain"}
}
