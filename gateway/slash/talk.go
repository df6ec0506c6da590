package slash

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"gatewayd/gateway"
	"gatewayd/sessiondb"
)

// endsWithin bounds how long /stop waits for what runs in the background; the rest ends by itself.
const endsWithin = 10 * time.Second

// stop is /stop. What waits in the conversation stays, and is said next.
func (r *Runner) stop(ctx context.Context, c Context, _ Line) (Reply, error) {
	stopped := r.Gateway.Interrupt(c.Session, gateway.Stop)
	ended := r.endBackground(ctx, c.Session)
	text := "Nothing runs here."
	if stopped {
		text = "Stopped."
	}
	if ended > 0 {
		text += fmt.Sprintf(" Ended in the background: %s.", count(ended, "command"))
	}
	waiting := r.waiting(ctx, c.Session)
	if n := waiting.queued + len(waiting.steers); n > 0 { // what was to be said into the turn is said after it
		text += fmt.Sprintf(" Waiting and said next: %s; /new drops them.", count(n, "message"))
	}
	return Reply{Text: text, Data: map[string]any{"stopped": stopped, "ended": ended, "queued": waiting.queued}}, nil
}

// endBackground ends what tools left running for a conversation, and gives how many commands that was.
func (r *Runner) endBackground(ctx context.Context, session string) int {
	if r.Background == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	return r.Background.StopSession(ctx, session)
}

// queue is /queue TEXT. Where no turn runs it is said at once.
func (r *Runner) queue(ctx context.Context, c Context, line Line) (Reply, error) {
	if line.Args == "" {
		return Reply{}, errUsage(line.Command, "wants the text to say")
	}
	say := gateway.Say{Session: c.Session, Source: c.Source, Text: line.Args, Detached: true}
	if _, busy := r.running(c.Session); !busy {
		say.Detached = false
		return Reply{Text: "Nothing runs here, so it is said now.", Say: &say}, nil
	}
	accepted, err := r.Gateway.Post(ctx, say)
	if err != nil {
		return Reply{}, err
	}
	return Reply{Text: fmt.Sprintf("It waits at place %d and is said when the turns before it have ended.", accepted.Position), Data: accepted, Session: accepted.Session}, nil
}

// steer is /steer TEXT. Where no turn runs there is nothing to steer, and it is said as a message.
func (r *Runner) steer(ctx context.Context, c Context, line Line) (Reply, error) {
	if line.Args == "" {
		return Reply{}, errUsage(line.Command, "wants the text to say")
	}
	if _, busy := r.running(c.Session); !busy {
		say := gateway.Say{Session: c.Session, Source: c.Source, Text: line.Args}
		return Reply{Text: "Nothing runs here that could be steered, so it is said now.", Say: &say}, nil
	}
	accepted, err := r.Gateway.Steer(ctx, c.Session, line.Args)
	if err != nil {
		return Reply{}, err
	}
	return Reply{Text: "It is said into the running turn after its next tool result; if none comes, it is the next message.", Data: accepted, Session: accepted.Session}, nil
}

// busyModes are what a message may mean for a turn that runs.
var busyModes = map[string]string{
	"queue": "waits for the turn's end", "steer": "is said into it, after its next tool result", "redirect": "ends it, keeps what was visible, and is answered next",
	"interrupt": "stops it, and is answered next",
}

// busy is /busy [mode].
func (r *Runner) busy(ctx context.Context, c Context, line Line) (Reply, error) {
	mode := strings.ToLower(line.Args)
	if _, known := busyModes[mode]; !known && mode != "" {
		return Reply{}, errUsage(line.Command, "does not know %.50q", line.Args)
	}
	var settings sessiondb.Settings
	err := r.ensure(ctx, c)
	switch {
	case err != nil:
	case mode == "":
		settings, err = r.Store.Settings(ctx, c.Session)
	default:
		settings, err = r.Store.ChangeSettings(ctx, c.Session, func(s *sessiondb.Settings) { s.Busy = mode })
	}
	if err != nil {
		return Reply{}, err
	}
	now := cmp.Or(settings.Busy, "queue")
	return Reply{Text: "A message that comes while a turn runs here " + busyModes[now] + " (" + now + ").", Data: map[string]any{"busy": now}}, nil
}
