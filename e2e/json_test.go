package e2e

import (
	"encoding/json"
	"regexp"
	"testing"
)

// What a read verb prints with --json is JSON and nothing else, with keys of one style, so that programs can stand on it.
func TestReadVerbsSpeakJSON(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t, "model: {provider: offline}\nkanban: {lanes: {echo: {preset: command, argv: [sh, -c, 'echo said; exit 3']}}}\n"))
	d.call("POST", "/api/boards", map[string]string{"slug": "default"}, nil)
	var made struct{ Task card }
	d.call("POST", "/api/boards/default/tasks", map[string]string{"title": "a card", "assignee": "echo"}, &made)
	id := made.Task.ID
	d.until("the card has been tried", func() bool { return d.cards("default")[id].Status == "blocked" })
	if err := d.say("talk", "hello", nil); err != nil {
		t.Fatal(err)
	}
	for _, verb := range [][]string{
		{"status"},
		{"doctor"},
		{"version"},
		{"why"},
		{"why", id},
		{"config", "show"},
		{"config", "check"},
		{"sessions", "list"},
		{"sessions", "show", "talk"},
		{"sessions", "search", "hello"},
		{"kanban", "boards"},
		{"kanban", "boards", "list"},
		{"kanban", "list"},
		{"kanban", "show", id},
		{"kanban", "runs", id},
		{"kanban", "log", id},
		{"kanban", "context", id},
		{"kanban", "events"},
		{"kanban", "stats"},
	} {
		out, errs, code := cli(t, d.home, append(verb, "--json")...)
		var value any
		if err := json.Unmarshal([]byte(out), &value); err != nil || errs != "" || code != 0 {
			t.Errorf("%v: code %d, %v, stderr %q", verb, code, err, errs)
		}
		checkKeys(t, verb, value)
	}
	d.stop()
}

var snake = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)

func checkKeys(t *testing.T, verb []string, value any) {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			if !snake.MatchString(key) {
				t.Errorf("%v has the key %q", verb, key)
			}
			checkKeys(t, verb, below)
		}
	case []any:
		for _, below := range v {
			checkKeys(t, verb, below)
		}
	}
}
