package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// chatCase is one thing that happens to a daemon of several chats while one of them is wedged.
type chatCase struct {
	name string
	run  func(*chats)
}

// Bounds of the chats. A heartbeat is a call of /health every 100 ms.
const (
	beat        = 100 * time.Millisecond
	beatGap     = 6 * time.Second
	quickAnswer = 3 * time.Second  // of a command, beside whatever is wedged
	termBound   = 60 * time.Second // from SIGTERM to the exit
)

// A chat that is wedged is wedged alone: the others are served, it can be stopped, spoken to and replaced, the daemon can be
// stopped, and health answers all the while.
func TestAWedgedChatIsWedgedAlone(t *testing.T) {
	t.Parallel()
	together(t, chatCases(), func(c chatCase) string { return c.name }, func(t *testing.T, c chatCase) {
		s := &chats{scene: newScene(t, forever(), obedient)}
		pulse := s.feel()
		c.run(s)
		if gap := pulse(); gap > beatGap {
			t.Errorf("health was silent for %v", gap)
		}
		s.finish()
	})
}

func chatCases() []chatCase {
	return []chatCase{
		{"another_chat_while_the_model_hangs", func(s *chats) { s.wedge("hang"); s.serves("other"); s.stopped() }},
		{"another_chat_while_a_command_hangs", func(s *chats) { s.wedge("sleep"); s.serves("other"); s.stopped() }},
		{"stop_while_the_model_hangs", func(s *chats) { s.wedge("hang"); s.stopped() }},
		{"stop_while_a_command_hangs", func(s *chats) { s.wedge("sleep"); s.stopped(); nothingOf(s) }},
		{"status_while_the_model_hangs", func(s *chats) { s.wedge("hang"); s.tells(); s.stopped() }},
		{"status_while_a_command_hangs", func(s *chats) { s.wedge("sleep"); s.tells(); s.stopped() }},
		{"busy_message_interrupts", func(s *chats) { s.wedge("hang"); s.redirected() }},
		{"busy_message_waits", func(s *chats) { s.wedge("hang"); s.queued() }},
		{"sigterm_while_the_model_hangs", func(s *chats) { s.wedge("hang"); s.terminated() }},
		{"sigterm_while_a_command_hangs", func(s *chats) { s.wedge("sleep"); s.terminated() }},
	}
}

// obedient is a model that does what the last message of a person asks for.
func obedient(r fakellm.Request) fakellm.Response {
	sent, text := messagesOf(r), lastUser(r)
	switch {
	case len(sent) > 0 && sent[len(sent)-1].Role == "tool":
		return fakellm.Text{Text: "It said: " + sent[len(sent)-1].Content}
	case strings.HasPrefix(text, "hang"):
		return fakellm.Hang{}
	case strings.HasPrefix(text, "sleep"):
		return run("sleep 3600")
	case strings.HasPrefix(text, "$ "):
		return run(strings.TrimPrefix(text, "$ "))
	}
	return fakellm.Text{Text: "Answer to " + text + "."}
}

// chats is a daemon with a chat that is wedged.
type chats struct {
	*scene
	turn  chan heard // of the wedged chat
	cause string
}

const wedged = "wedged"

// wedge begins a turn that nothing would end, and waits until it hangs.
func (s *chats) wedge(cause string) {
	s.cause = cause
	s.turn = s.begin(wedged, cause+" until somebody comes")
	s.await(1)
	if cause == "sleep" {
		s.until("the command runs", func() bool { return len(commands(s.t, s.home)) > 0 })
	}
}

// begin sends a message and does not wait for the answer.
func (s *scene) begin(session, text string) chan heard {
	turn := make(chan heard, 1)
	ctx, cancel := context.WithTimeout(s.t.Context(), turnBound)
	go func() {
		defer cancel()
		turn <- s.hear(ctx, session, text)
	}()
	return turn
}

// await waits until the model has had so many calls.
func (s *scene) await(calls int) []fakellm.Request {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	requests, err := s.model.Wait(ctx, calls)
	if err != nil {
		s.t.Fatal(err)
	}
	return requests
}

// feel calls /health at every beat until it is told to stop, and gives the longest silence.
func (s *scene) feel() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(s.t.Context())
	gap := make(chan time.Duration, 1)
	base, ended := s.base, s.child.Done()
	go func() {
		longest, last := time.Duration(0), time.Now()
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				gap <- max(longest, time.Since(last))
				return
			case <-ended: // as it was asked to
				gap <- longest
				return
			case <-tick.C:
			}
			if resp, err := http.Get(base + "/health"); err == nil {
				_ = resp.Body.Close()
				longest, last = max(longest, time.Since(last)), time.Now()
			}
		}
	}()
	return func() time.Duration { cancel(); return <-gap }
}

// serves demands an answer in another chat.
func (s *chats) serves(session string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), probeBound)
	defer cancel()
	if h := s.hear(ctx, session, "hello"); !strings.Contains(h.text, "Answer to hello") {
		s.t.Errorf("the chat %s was answered with %q, %q, %v", session, h.text, h.why, h.err)
	}
}

// tells demands quick words about a chat that does not answer.
func (s *chats) tells() {
	s.t.Helper()
	began := time.Now()
	words := s.slash(wedged, "/status").Text
	if took := time.Since(began); took > quickAnswer || !strings.Contains(words, fakellm.Model) {
		s.t.Errorf("/status said %q after %v", words, took)
	}
}

// stopped stops the wedged chat as its person does, and demands words in time.
func (s *chats) stopped() {
	s.t.Helper()
	began := time.Now()
	words := s.slash(wedged, "/stop").Text
	if took := time.Since(began); took > stopBound || words == "" {
		s.t.Errorf("/stop said %q after %v", words, took)
	}
	s.gotWords(stopBound)
}

// gotWords waits for the end of the wedged turn.
func (s *chats) gotWords(limit time.Duration) heard {
	s.t.Helper()
	select {
	case h := <-s.turn:
		if h.words() == "" || h.place("done") < 0 {
			s.t.Errorf("the wedged chat was told %q, %v", h.words(), h.err)
		}
		return h
	case <-time.After(limit):
		s.t.Errorf("the wedged chat has heard nothing after %v", limit)
	}
	return heard{}
}

// handOver hands a message over without waiting for its turn.
func (d *daemon) handOver(session, text, mode string) {
	d.t.Helper()
	d.call(http.MethodPost, "/api/sessions/"+session+"/messages", map[string]string{"text": text, "mode": mode}, nil)
}

// idle waits until no turn runs: an answer is stored a moment before its turn has ended.
func (d *daemon) idle() {
	d.t.Helper()
	d.until("no turn runs", func() bool {
		var health struct {
			Running int `json:"turns_running"`
		}
		return d.try(http.MethodGet, "/health/detailed", nil, &health) == nil && health.Running == 0
	})
}

// redirected sends a message that takes over.
func (s *chats) redirected() {
	s.t.Helper()
	s.handOver(wedged, "do this instead", "interrupt")
	s.answeredOnce("do this instead")
	s.gotWords(stopBound)
}

// queued sends a message that waits for its turn.
func (s *chats) queued() {
	s.t.Helper()
	s.handOver(wedged, "then do that", "queue")
	if rows := s.rows(wedged); countTold(rows, "then do that") > 0 {
		s.t.Errorf("a message that waits is in the conversation already: %s", roles(rows))
	}
	s.stopped()
	s.answeredOnce("then do that")
}

// answeredOnce waits for the answer to a message, and demands that both are there once.
func (s *chats) answeredOnce(text string) {
	s.t.Helper()
	s.until(text+" is answered", func() bool { return countTold(s.rows(wedged), "Answer to "+text) > 0 })
	rows := s.rows(wedged)
	if q, a := countTold(rows, text)-countTold(rows, "Answer to "+text), countTold(rows, "Answer to "+text); q != 1 || a != 1 {
		s.t.Errorf("%q is there %d times and answered %d times", text, q, a)
	}
}

func countTold(rows []row, text string) (n int) {
	for _, r := range rows {
		n += strings.Count(r.Content, text)
	}
	return n
}

// terminated stops the daemon in the middle: it exits by itself, with its code, and the chat was told why.
func (s *chats) terminated() {
	s.t.Helper()
	began := time.Now()
	s.leaveWith(0, termBound)
	s.gotWords(time.Until(began.Add(termBound)))
	nothingOf(s)
	s.again(s.home)
}

func nothingOf(s *chats) {
	s.t.Helper()
	if pids := commands(s.t, s.home); len(pids) > 0 {
		s.t.Errorf("commands of a turn that was ended still run: %v", pids)
	}
}

// finish probes the chat that was wedged, stops the daemon, and looks at what is left.
func (s *chats) finish() {
	s.t.Helper()
	before := len(s.model.Requests())
	ctx, cancel := context.WithTimeout(s.t.Context(), probeBound)
	defer cancel()
	h := s.hear(ctx, wedged, "probe")
	if strings.Count(h.text, "Answer to probe") != 1 {
		s.t.Errorf("the probe was answered with %q, %q, %v", h.text, h.why, h.err)
	}
	requests := s.model.Requests()[before:]
	if len(requests) != 1 || countIn(messagesOf(requests[0]), s.cause+" until somebody comes") != 1 {
		s.t.Errorf("the probe took %d calls, and the wedged turn is not in its history once", len(requests))
	}
	s.leaveWith(0, termBound)
	rows, audit := readStore(s.t, s.home, wedged)
	if found := alternate(rows); len(found) > 0 || !audit.OK() {
		s.t.Errorf("the rows: %q, %v", found, audit.Findings)
	}
	if left := nobodyOf(s.t, s.home, reapBound); len(left) > 0 {
		s.t.Errorf("outlived the daemon: %q", left)
	}
}
