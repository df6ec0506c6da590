package api

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/sessiondb"
)

type fakeStore struct{ health sessiondb.Health }

func (f fakeStore) State() sessiondb.State   { return f.health.State }
func (f fakeStore) Health() sessiondb.Health { return f.health }

func TestHealthNamesTheQuarantineAndWhereTheRowsAre(t *testing.T) {
	store := fakeStore{sessiondb.Health{
		State: sessiondb.StateQuarantined, Reason: "corrupt", Detail: "state.db is damaged", Remedy: "repair it",
		Spool: sessiondb.SpoolState{Path: "/home/state.db.spool", Rows: 3, Bytes: 900}, Captures: []sessiondb.CaptureState{{Dir: "/home/capture"}},
	}}
	h, _ := plain(func(o *Options) { o.Store = store })
	short := ask(h, "GET", "/health", "", header("Authorization", ""))
	if body := decoded(t, short); short.Code != http.StatusOK || body["status"] != "degraded" || body["store"] != "quarantined" {
		t.Errorf("short: %d %v", short.Code, body)
	}
	if strings.Contains(short.Body.String(), "/home") {
		t.Error("a path is told without a key")
	}
	body := decoded(t, ask(h, "GET", "/health/detailed", ""))
	told := fmt.Sprint(body["store"])
	for _, part := range []string{"quarantined", "corrupt", "repair it", "/home/state.db.spool", "rows:3", "bytes:900", "/home/capture"} {
		if !strings.Contains(told, part) {
			t.Errorf("%q is missing: %v", part, told)
		}
	}
	if body["status"] != "degraded" {
		t.Errorf("status: %v", body["status"])
	}
}

// A store that takes nothing asks a client to come back; a message that is kept must not be sent again.
func TestAnUnusableStoreIsAnswered503(t *testing.T) {
	down := asRefusal(&problem.Error{Kind: problem.Unavailable, Thing: "the store", What: "takes no new messages now"})
	if down.status != http.StatusServiceUnavailable || down.retryAfter == 0 || down.noRetry {
		t.Errorf("down: %+v", down)
	}
	spool := sessiondb.SpoolOf(filepath.Join(t.TempDir(), "state.db"))
	err := spool.Append(t.Context(), sessiondb.Lease{Session: "s", Token: "t"}, []sessiondb.NewMessage{{Role: "user", Content: "x"}}, down)
	kept := asRefusal(err)
	if kept.status != http.StatusServiceUnavailable || kept.retryAfter != 0 || !kept.noRetry || kept.code != "kept_not_stored" || !strings.Contains(kept.message, spool.Dir()) {
		t.Errorf("kept: %+v", kept)
	}
}
