package dispatch

import (
	"os"
	"strings"
	"testing"

	"gatewayd/config"
	"gatewayd/kanban"
)

// A worker that dies at once has said why, and nobody was there yet to read it: the log and the card have it all the same.
func TestAWorkerThatDiesAtOnceLeavesItsLastWords(t *testing.T) {
	h := newHouse(t)
	h.config.Lanes["exits"] = config.Lane{Argv: []string{"sh", "-c", "echo no such model >&2; exit 3"}}
	h.config.Lanes["killed"] = config.Lane{Argv: []string{"sh", "-c", "echo out of luck >&2; kill -9 $$"}}
	b := h.board(kanban.DefaultSlug)
	d := h.dispatcher()
	for lane, words := range map[string]string{"exits": "no such model", "killed": "out of luck"} {
		id := card(t, b, lane)
		tickUntil(t, d, "the end of a worker of lane "+lane, func() bool { return events(t, b, id, kanban.EventCrashed) > 0 })
		task, err := b.Task(t.Context(), id)
		must(t, err)
		if !strings.Contains(task.LastFailureError, words) {
			t.Errorf("%s: the card says %q", lane, task.LastFailureError)
		}
		log, err := os.ReadFile(h.root.LogPath(b.Slug(), id))
		if err != nil || !strings.Contains(string(log), words) {
			t.Errorf("%s: the log has %q, %v", lane, log, err)
		}
	}
}
