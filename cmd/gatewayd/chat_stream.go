package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"gatewayd/internal/problem"
)

// event is one of the daemon's server-sent events.
type event struct {
	name string
	data []byte
}

// Names of the events of a turn, as the API sends them.
const (
	evWatching = "watching"
	evTurn     = "turn"
	evDecided  = "decided"
	evCommand  = "command"
	evDelta    = "delta"
	evThought  = "reasoning"
	evStarted  = "tool_started"
	evFinished = "tool_finished"
	evNotice   = "notice"
	evModel    = "model"
	evQueued   = "queued"
	evApproval = "approval"
	evSteered  = "steered"
	evEnded    = "ended"
	evError    = "error"
)

// happening is the data of an event, as far as a command line shows it.
type happening struct {
	Text     string    `json:"text"`
	Tool     string    `json:"tool"`
	CallID   string    `json:"call_id"`
	Label    string    `json:"label"`
	Failed   bool      `json:"failed"`
	Approval *approval `json:"approval"`
}

// approval is what a tool asks a person.
type approval struct {
	ID      string `json:"id"`
	Tool    string `json:"tool"`
	Effect  string `json:"effect"`
	Reason  string `json:"reason"`
	Expires string `json:"expires_at"`

	State    string `json:"state"`
	Decision string `json:"decision"`
	By       string `json:"decided_by"`
}

// turnEnd is what became of a turn.
type turnEnd struct {
	Session     string `json:"session"`
	Text        string `json:"text"`
	Completed   bool   `json:"completed"`
	Failed      bool   `json:"failed"`
	Interrupted bool   `json:"interrupted"`
	Error       string `json:"error"`
	ExitReason  string `json:"exit_reason"`
	LastRow     int64  `json:"last_row"`
	Usage       struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// open says a text in a conversation and gives the stream of its turn. The turn ends when the stream is closed.
func (cl *client) open(ctx context.Context, session, text, mode string, images ...string) (*http.Response, error) {
	body := map[string]any{"text": text, "mode": mode, "source": "cli", "wait": true}
	if len(images) > 0 {
		body["images"] = images
	}
	return cl.send(ctx, http.MethodPost, sessionPath(session, "/messages"), body)
}

// events reads a stream of events to its end. A line may have any length. io.EOF is no error: what is missing then is the event by
// which a whole stream ends.
func events(body io.Reader) func(yield func(event, error) bool) {
	return func(yield func(event, error) bool) {
		e := event{}
		for r := bufio.NewReader(body); ; {
			line, err := r.ReadString('\n')
			line = strings.TrimRight(line, "\r\n")
			name, isName := strings.CutPrefix(line, "event:")
			data, isData := strings.CutPrefix(line, "data:")
			switch {
			case isName:
				e.name = strings.TrimSpace(name)
			case isData:
				e.data = []byte(strings.TrimPrefix(data, " "))
			case line == "" && e.data != nil:
				if !yield(e, nil) {
					return
				}
				e = event{}
			}
			if err == io.EOF { //nolint:errorlint // bufio gives io.EOF itself
				return
			}
			if err != nil {
				yield(event{}, err)
				return
			}
		}
	}
}

// last reports that nothing follows an event. A command's reply is the last one where no turn follows.
func (e event) last() bool {
	var reply struct{ Turn bool }
	return e.name == evEnded || e.name == evError || e.name == evCommand && json.Unmarshal(e.data, &reply) == nil && !reply.Turn
}

// refusal reads the error of an event.
func (e event) refusal() error {
	var envelope struct {
		Error struct{ Message, Code string }
	}
	_ = json.Unmarshal(e.data, &envelope)
	return &problem.Error{Kind: problem.Unavailable, What: envelope.Error.Message}
}

// errBroken is for a stream without an end.
func errBroken(session string, err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return &problem.Error{
		Kind: problem.NotRunning, Thing: "the daemon", What: "has closed the connection in the middle of an answer",
		Fate: "what was said so far is stored in session " + session, Remedy: "see `gatewayd status`", Err: unsaid{err},
	}
}
