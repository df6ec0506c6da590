package gateway

import "context"

// Stopped is what a stop has ended.
type Stopped struct {
	Turn     bool `json:"turn"`     // a turn ran and was interrupted; its closing rows are written by itself
	Commands int  `json:"commands"` // that ran in the background and are gone
}

// Stop interrupts the running turn of a session, with cause Stop, and ends the commands that the session has in the background. It
// returns when these are gone or ctx has ended. Messages that wait in the conversation stay.
func (g *Gateway) Stop(ctx context.Context, session string) Stopped {
	turn := g.Interrupt(session, Stop)
	return Stopped{Turn: turn, Commands: g.opts.Tools.StopSession(ctx, session)}
}
