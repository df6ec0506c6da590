package notify

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatewayd/reaper"
)

const (
	commandTime  = 60 * time.Second
	commandGrace = 2 * time.Second // a stop of the daemon waits for it
)

// Runner runs a short command to its end: reaper.Reaper.
type Runner interface {
	Output(ctx context.Context, spec reaper.Spec) ([]byte, reaper.Record, error)
}

// command is one target of the configuration: words of a program, never a line for a shell. Nothing of the event is
// among its words; it is in a file.
type command struct {
	argv   []string
	env    []string
	dir    string // where the files are
	runner Runner
}

// send succeeds with exit code 0. Everything else is tried again.
func (c command) send(ctx context.Context, m message) outcome {
	path := filepath.Join(c.dir, m.key+".json")
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return failed(err)
	}
	if err := os.WriteFile(path, m.body, 0o600); err != nil {
		return failed(err)
	}
	defer os.Remove(path)
	said, record, err := c.runner.Output(ctx, reaper.Spec{
		Argv: c.argv, Dir: c.dir, Deadline: commandTime, Grace: commandGrace,
		Env: append(c.env, "GATEWAYD_EVENT_FILE="+path, "GATEWAYD_EVENT_KEY="+m.key, "GATEWAYD_EVENT_KIND="+m.kind),
	})
	switch {
	case err != nil:
		return failed(err)
	case record.Reason == reaper.Exited && record.Code == 0:
		return ok()
	}
	text := fmt.Sprintf("%s ended with %s, code %d", c.argv[0], record.Reason, record.Code)
	if words := strings.Join(strings.Fields(string(said)), " "); words != "" {
		text += ": " + words[max(0, len(words)-saidMax):]
	}
	return outcome{verdict: tryAgain, err: text}
}
