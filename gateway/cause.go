package gateway

import (
	"context"
	"errors"
)

// Cause is what ends a turn. The context of a turn carries one of them, and it decides which rows close the turn.
type Cause string

// The causes. Their text is what a person and a model read.
const (
	Stop       Cause = "stopped by the user"
	Redirect   Cause = "redirected by a newer message"
	ClientGone Cause = "the client went away"
	Drain      Cause = "the daemon is stopping"
	LeaseLost  Cause = "another process took over this conversation"
	Stall      Cause = "the turn made no progress"
)

// Error gives the text.
func (c Cause) Error() string { return string(c) }

// name is the cause as ExitReason has it.
func (c Cause) name() string {
	switch c {
	case Stop:
		return "stop"
	case Redirect:
		return "redirect"
	case Drain:
		return "drain"
	case LeaseLost:
		return "lease_lost"
	case Stall:
		return "stall"
	}
	return "client_gone"
}

// note is the closing row's sentence. A lost lease writes no row: the transcript is somebody else's.
func (c Cause) note() string {
	switch c {
	case Stop:
		return "[Stopped by the user before there was an answer.]"
	case Redirect:
		return "[Left unfinished: a newer message took over.]"
	case Drain:
		return "[Interrupted: gatewayd was stopping. Nothing of this turn is running any more; send a message to go on.]"
	case LeaseLost:
		return "[Ended: another process took over this conversation. Nothing more was written here.]"
	case Stall:
		return "[Ended: there was no sign of life from the model or a tool for too long. Nothing of this turn is running any more.]"
	}
	return "[Left unfinished: the client disconnected before there was an answer.]"
}

// causeOf gives the cause that a context ended with. An end without one is the caller's going away.
func causeOf(ctx context.Context) Cause {
	if cause, ok := errors.AsType[Cause](context.Cause(ctx)); ok {
		return cause
	}
	return ClientGone
}
