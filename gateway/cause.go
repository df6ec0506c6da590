package gateway

import "errors"

// Causes that end a turn. The context of a turn carries one of them, and it decides which rows close the turn.
var (
	Stop       = errors.New("stopped by the user")
	Redirect   = errors.New("redirected by a newer message")
	ClientGone = errors.New("the client went away")
	Drain      = errors.New("the daemon is stopping")
	LeaseLost  = errors.New("another process took over this conversation")
	Stall      = errors.New("the turn made no progress")
)
