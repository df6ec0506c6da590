package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// What was accepted is answered, once, whatever became of the daemon that accepted it.
func TestWhatWasAcceptedIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	together(t, deliveries(), func(c delivery) string { return c.name }, func(t *testing.T, c delivery) {
		m := &mailman{}
		k := forever()
		if c.grace > 0 {
			k.grace = c.grace
		}
		m.scene = newScene(t, k, m.answer)
		c.run(m)
		m.finish()
	})
}

type delivery struct {
	name  string
	grace time.Duration // of a stop
	run   func(*mailman)
}

func deliveries() []delivery {
	return []delivery{
		{name: "accepted_before_kill_9", run: func(m *mailman) {
			m.begin(delivered, "hang first")
			m.await(1)
			m.handOver(delivered, "thing one", "queue")
			m.handOver(delivered, "thing two", "queue")
			m.killed()
			m.wakes()
			m.answers("thing one")
			m.answers("thing two")
		}},
		{name: "accepted_before_sigterm", run: func(m *mailman) {
			m.begin(delivered, "hang first")
			m.await(1)
			m.handOver(delivered, "thing one", "queue")
			m.leaveWith(0, termBound)
			m.wakes()
			m.answers("thing one")
		}},
		{name: "in_the_middle_of_an_answer", run: func(m *mailman) {
			m.handOver(delivered, "hang on", "queue")
			m.await(1)
			m.killed()
			m.wakes()
			m.answers("hang on")
		}},
		{name: "sigkill_while_draining", grace: time.Minute, run: func(m *mailman) {
			m.handOver(delivered, "hang on", "queue")
			m.await(1)
			m.drains()
			m.killed()
			m.wakes()
			m.answers("hang on")
		}},
		{name: "in_the_middle_of_a_command", run: (*mailman).midCommand},
		{name: "again_and_again", run: (*mailman).poisoned},
	}
}

const delivered = "delivered"

// mailman is a daemon that dies with letters in its bag.
type mailman struct {
	*scene
	awake atomic.Bool
}

// answer is an obedient model that hangs only until it is awake.
func (m *mailman) answer(r fakellm.Request) fakellm.Response {
	if strings.HasPrefix(questionIn(r), "hang") && m.awake.Load() {
		return fakellm.Text{Text: "Answer to " + questionIn(r) + "."}
	}
	return obedient(r)
}

// questionIn is the last thing that a person said, leaving out what gatewayd itself says to the model.
func questionIn(r fakellm.Request) (text string) {
	for _, m := range messagesOf(r) {
		if m.Role == "user" && !strings.HasPrefix(m.Content, "[") {
			text = m.Content
		}
	}
	return text
}

// wakes starts the next daemon, with a model that answers.
func (m *mailman) wakes() {
	m.t.Helper()
	m.awake.Store(true)
	m.again(m.home)
}

// answers waits for the answer to a message, and demands that both are there once.
func (m *mailman) answers(text string) {
	m.t.Helper()
	m.until(text+" is answered", func() bool { return countTold(m.rows(delivered), "Answer to "+text) > 0 })
	rows := m.rows(delivered)
	if q, a := toldBy(rows, "user", text), toldBy(rows, "assistant", "Answer to "+text); q != 1 || a != 1 {
		m.t.Errorf("%q is there %d times and answered %d times", text, q, a)
	}
}

func toldBy(rows []row, role, text string) (n int) {
	for _, r := range rows {
		if r.Role == role && strings.Contains(r.Content, text) {
			n++
		}
	}
	return n
}

// drains asks the daemon to stop and waits until it says that it does.
func (m *mailman) drains() {
	m.t.Helper()
	if err := m.child.Signal(syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	m.until("the daemon drains", func() bool {
		resp, err := http.Get(m.base + "/health")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
}

// midCommand kills the daemon while a command runs: the command is ended with it, its effect is called unknown, and nobody but the
// model decides whether it is run again.
func (m *mailman) midCommand() {
	mark := filepath.Join(m.home, "workspace", "mark")
	m.handOver(delivered, "$ echo once >> mark; sleep 3600", "queue")
	m.until("the command runs", func() bool { _, err := os.Stat(mark); return err == nil })
	m.killed()
	m.wakes()
	requests := m.await(2)
	if sent := messagesOf(requests[1]); countIn(sent, "UNKNOWN") == 0 {
		m.t.Errorf("the model was not told that the effect is unknown: %+v", sent)
	}
	if raw, err := os.ReadFile(mark); err != nil || string(raw) != "once\n" {
		m.t.Errorf("the command left %q, %v", raw, err)
	}
	m.until("the turn has ended", func() bool {
		rows := m.rows(delivered)
		return rows[len(rows)-1].Role == "assistant"
	})
}

// resumeMost is how often a turn is tried again whose daemon died with it.
const resumeMost = 2

// poisoned is a turn with which the daemon dies each time: it is given up, and said so.
func (m *mailman) poisoned() {
	m.handOver(delivered, "hang on", "queue")
	for n := range 1 + resumeMost {
		m.await(n + 1)
		m.killed()
		m.again(m.home)
	}
	m.until("the turn is given up", func() bool {
		rows := m.rows(delivered)
		return rows[len(rows)-1].Role == "assistant" && strings.HasPrefix(rows[len(rows)-1].Content, "[")
	})
	if n := len(m.model.Requests()); n != 1+resumeMost {
		m.t.Errorf("the model was asked %d times", n)
	}
	m.awake.Store(true)
}

// finish probes the conversation, stops the daemon and looks at what it left.
func (m *mailman) finish() {
	m.t.Helper()
	if h := m.hear(m.t.Context(), delivered, "probe"); strings.Count(h.text, "Answer to probe") != 1 {
		m.t.Errorf("the probe was answered with %q, %q, %v", h.text, h.why, h.err)
	}
	m.leaveWith(0, termBound)
	rows, audit := readStore(m.t, m.home, delivered)
	if found := alternate(rows); len(found) > 0 || !audit.OK() {
		m.t.Errorf("the rows: %q, %v", found, audit.Findings)
	}
	if left := nobodyOf(m.t, m.home, reapBound); len(left) > 0 {
		m.t.Errorf("outlived the daemon: %q", left)
	}
}
