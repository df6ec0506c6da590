package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/procfs"
)

// gateOf is the first model's gate as the daemon's health tells it.
type gateOf struct {
	Inside  int
	Waiting []struct {
		Caller struct{ Class, Session string }
	}
}

func (d *daemon) gate() (g gateOf) {
	var health struct {
		Checks []struct {
			Name string
			Data json.RawMessage
		}
	}
	if d.try(http.MethodGet, "/health/detailed", nil, &health) != nil {
		return g
	}
	for _, c := range health.Checks {
		var models []struct{ Gate gateOf }
		if c.Name == "model" && json.Unmarshal(c.Data, &models) == nil && len(models) > 0 {
			return models[0].Gate
		}
	}
	return g
}

// A chat of the daemon and a worker in a process of its own wait for one key in one queue: there is never more than one call at a time, the waiting one
// is told its place, and when the worker is killed in the middle of a call, its place comes back.
func TestChatsAndWorkersWaitForOneKeyInOneQueue(t *testing.T) {
	var inside, most atomic.Int32
	gate, hang := make(chan struct{}, 8), make(chan struct{})
	t.Cleanup(func() { close(hang) })
	var worker atomic.Bool // a card's request has arrived
	answer := func(r fakellm.Request) fakellm.Response {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
		}
		go func() { <-r.Gone; inside.Add(-1) }()
		if strings.Contains(string(r.Body), "kanban_complete") && strings.Contains(string(r.Body), "Wait your turn") {
			worker.Store(true)
			return fakellm.Hang{Release: hang}
		}
		return fakellm.Text{Text: "served", Gate: gate}
	}
	k := forever()
	k.model, k.more = ", max_concurrent: 1", "kanban:\n  lanes:\n    helper: {preset: agent}\n"
	s := newScene(t, k, answer)
	if _, errs, code := cli(t, s.home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	first := make(chan heard, 1)
	go func() { first <- s.hear(ctx, "a", "hello") }()
	if _, err := s.model.Wait(ctx, 1); err != nil {
		t.Fatal(err)
	}
	var made struct{ Task card }
	s.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": "Wait your turn", "assignee": "helper"}, &made)
	s.until("the worker waits in the daemon's queue", func() bool {
		g := s.gate()
		return len(g.Waiting) == 1 && g.Waiting[0].Caller.Class == "worker"
	})
	if worker.Load() {
		t.Error("the worker's request did not wait")
	}
	gate <- struct{}{}
	if h := <-first; !strings.Contains(h.text, "served") {
		t.Errorf("the chat was told %+v", h)
	}
	s.until("the worker is served", worker.Load)

	told := make(chan string, 16)
	second := make(chan heard, 1)
	go func() {
		second <- s.hear(ctx, "b", "and me?", func(p part) {
			if strings.Contains(p.text, "place 1 of 1") {
				select {
				case told <- p.text:
				default:
				}
			}
		})
	}()
	select {
	case <-told:
	case <-ctx.Done():
		t.Error("the waiting chat was not told its place")
	}
	atOnce := most.Load() // the call of a killed worker is at the server until that notices
	killed := workers(t, s.home)
	for _, pid := range killed {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if len(killed) == 0 {
		t.Fatalf("nobody works on %s", made.Task.ID)
	}
	for range 4 {
		gate <- struct{}{}
	}
	if h := <-second; !strings.Contains(h.text, "served") {
		t.Errorf("behind a killed worker the chat was told %+v", h)
	}
	if atOnce != 1 {
		t.Errorf("%d calls at the same time", atOnce)
	}
	if _, errs, code := cli(t, s.home, "kanban", "archive", made.Task.ID); code != 0 {
		t.Error(errs)
	}
	s.until("nobody is at the gate, and nobody works", func() bool {
		g := s.gate()
		return g.Inside == 0 && len(g.Waiting) == 0 && len(workers(t, s.home)) == 0
	})
	s.stop()
	if left := nobodyOf(t, s.home, patience); left != nil {
		t.Errorf("still there: %v", left)
	}
}

// workers are the processes that work on cards of a home: not their keepers, which end with them.
func workers(t *testing.T, home string) (pids []int) {
	t.Helper()
	for _, pid := range family(t, home) {
		command, err := procfs.Command(pid)
		if err == nil && strings.Contains(command, "worker") && !strings.Contains(command, "keeper") {
			pids = append(pids, pid)
		}
	}
	return pids
}
