package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/vigil"
)

// The demo's home lies in TMPDIR and the torture chamber's where --dir says: nothing is written anywhere else, by them or by any process
// that they start, the home that a person has stays empty, and what they made is gone with them.
func TestAVerbWithHomesOfItsOwnWritesNowhereElse(t *testing.T) {
	t.Parallel()
	for verb, row := range tripwires {
		if !row.apart {
			continue
		}
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			g.env = append(g.env, "TMPDIR="+g.out)
			before := g.outside()
			out, said, code := g.run(append([]string{verb}, g.fillIn(row.args)...), false)
			if code == exitUsage {
				t.Errorf("%v was not understood: %s", row.args, said)
			}
			if code != 0 { // on a slow machine the demo's half a minute may be over; what it wrote until then is looked at all the same
				t.Logf("exit code %d: %s%s", code, out, said)
			}
			paths := g.written("verb")
			if stray := g.beyond(slices.Clone(paths), []string{"$OUT"}); len(stray) > 0 {
				t.Errorf("it writes outside its own homes: %v", stray)
			}
			for _, name := range []string{"state.db", "kanban.db"} {
				if len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool { return filepath.Base(p) == name }) {
					t.Errorf("it was not seen to write %s, so little was tried", name)
				}
			}
			if after := g.outside(); after != before {
				t.Errorf("it changed what is none of its business\nbefore:\n%s\nafter:\n%s", before, after)
			}
			for _, dir := range []string{g.home, g.out} {
				if dir == g.out && code != 0 {
					continue // kept for a look
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("left in %s: %v, %v", dir, left, err)
				}
			}
		})
	}
}

// A worker of our own works on a card, and a command that its model calls too: what they write is in the home, the card's workspace with it.
func TestAWorkerWritesNowhereButInItsHome(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("SKIPPED: strace is not installed, so what a worker writes is not seen")
	}
	model := fakellm.New(t,
		fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "echo worked > proof.txt"}},
		fakellm.ToolCall{Name: "kanban_complete", Args: map[string]any{"summary": "wrote the proof"}},
		fakellm.Text{Text: "The card is done."},
	)
	g := newGround(t)
	before := g.outside()
	base, stop := g.serveWith(fmt.Sprintf("model: {base_url: %q, name: fake-model}\ntools: {terminal: allow}\nkanban: {lanes: {helper: {preset: agent}}}\n", model.URL()))
	t.Cleanup(stop)
	g.must("kanban", "boards", "create", "demo")
	var made struct{ ID string }
	need(t, json.Unmarshal(g.must("kanban", "create", "a card", "--board", "demo", "--assignee", "helper", "--json"), &made))
	g.untilDone(base + "/api/boards/demo/tasks/" + made.ID)
	stop()
	paths := g.written("daemon")
	if !slices.ContainsFunc(paths, func(p string) bool { return filepath.Base(p) == "proof.txt" }) {
		t.Error("the worker's command was not traced, so its worker was not")
	}
	if stray := g.beyond(paths, []string{"$HOME"}); len(stray) > 0 {
		t.Errorf("it writes outside its home: %v", stray)
	}
	if after := g.outside(); after != before {
		t.Errorf("a worker changed what is none of its business\nbefore:\n%s\nafter:\n%s", before, after)
	}
}

// untilDone waits until the card is done: its worker is another process.
func (g *ground) untilDone(url string) {
	g.t.Helper()
	key, err := config.ReadAPIKey(g.home)
	need(g.t, err)
	status := ""
	if vigil.Until(time.Minute, nil, func() bool {
		r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, url, nil)
		need(g.t, err)
		r.Header.Set("Authorization", "Bearer "+key.Reveal())
		got, err := http.DefaultClient.Do(r)
		need(g.t, err)
		var shown struct{ Task struct{ Status string } }
		need(g.t, json.NewDecoder(got.Body).Decode(&shown))
		need(g.t, got.Body.Close())
		status = shown.Task.Status
		return status == "done"
	}) {
		return
	}
	log, _ := os.ReadFile(g.home + "/logs/gatewayd.log")
	g.t.Fatalf("the card is %s\n%s", status, strings.TrimSpace(string(log)))
}
