package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/api"
	"gatewayd/gateway/provider"
)

// statusView is how the daemon is, in the words of /health/detailed and of `gatewayd status`: none of them is ours.
type statusView struct {
	Checks []api.Check
	Wrong  []string // those that are not ok
	Marks  map[string]string
	Models []provider.Stats
	Asked  []gateway.Approval
	Daemon daemonStatus
}

// checkMarks are the forms in which a check's state is shown beside its word.
var checkMarks = map[string]string{"ok": "done", "off": "archived", "degraded": "other", "failed": "blocked"}

// daemonStatus is what is shown of the body of GET /api/status.
type daemonStatus struct {
	PID       int
	Started   time.Time
	Build     struct{ Version, Revision, Go string }
	Decisions []struct{ Thing, Value, Why string }
	Gateway   gateway.Status
	LastRun   struct {
		Sentence string
		Waiting  int
		Turns    []gateway.Recovered
	} `json:"last_run"`
	Dispatcher struct {
		Boards []struct {
			Board, State   string
			Running, Ready int
		}
		Lanes []struct {
			Lane, Preset string
			Running      int
		}
		LastTick *time.Time `json:"last_tick"`
		NextTick *time.Time `json:"next_tick"`
	}
}

// status answers GET /status.
func (s *site) status(r *http.Request) (page, error) {
	p := page{View: "status", Title: "Status", Mark: "status", Script: "talk"}
	if r.Header.Get(fragmentHeader) == "badge" {
		return p, nil
	}
	if s.Checks == nil || s.Status == nil {
		return p, off("The status")
	}
	v := statusView{Checks: s.Checks(r.Context()), Marks: checkMarks}
	v.Wrong = wrong(v.Checks)
	for _, c := range v.Checks {
		if stats, ok := c.Data.([]provider.Stats); ok {
			v.Models = append(v.Models, stats...)
		}
	}
	said, err := json.Marshal(s.Status(r.Context()))
	if err == nil {
		err = json.Unmarshal(said, &v.Daemon)
	}
	if err == nil {
		v.Asked, err = s.asked(r.Context(), "")
	}
	p.Data = v
	return p, err
}

// troubles are the checks that are not ok, for the badge beside the navigation.
func (s *site) troubles(ctx context.Context) (words []string) {
	if s.Checks == nil {
		return nil
	}
	return wrong(s.Checks(ctx))
}

func wrong(checks []api.Check) (words []string) {
	for _, c := range checks {
		if c.Status == "degraded" || c.Status == "failed" {
			words = append(words, strings.TrimSuffix(c.Name+": "+c.Reason, ": "))
		}
	}
	return words
}
