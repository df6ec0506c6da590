package tool

import (
	"context"
	"errors"
)

// What a set does for a conversation outside of its calls. Each asks the tools that have something of a conversation.

// Detach moves a call that runs to the background: its Run returns soon, with a handle and an effect that is done, and what it
// started goes on. It reports false where there is nothing to move (no such call runs, or its tool cannot leave it alone); such a
// call is ended through its context.
func (s *Set) Detach(session, call string) bool {
	for _, t := range s.list() {
		if d, ok := t.(interface {
			Detach(session, call string) bool
		}); ok && d.Detach(session, call) {
			return true
		}
	}
	return false
}

// StopSession ends what runs in the background for a conversation and gives how many commands that was. It returns when they are
// gone or ctx has ended; nobody is sent news of an end that was asked for.
func (s *Set) StopSession(ctx context.Context, session string) (stopped int) {
	for _, t := range s.list() {
		if e, ok := t.(interface {
			StopSession(ctx context.Context, session string) int
		}); ok {
			stopped += e.StopSession(ctx, session)
		}
	}
	return stopped
}

// DropSession is StopSession for a conversation that is deleted: it removes what the tools keep of it, too.
func (s *Set) DropSession(ctx context.Context, session string) error {
	s.StopSession(ctx, session)
	var err error
	for _, t := range s.list() {
		if d, ok := t.(interface {
			DropSession(ctx context.Context, session string) error
		}); ok {
			err = errors.Join(err, d.DropSession(ctx, session))
		}
	}
	return err
}

// Tell stores a message in a conversation and wakes the model; telling the same uid again stores nothing. gateway.Gateway has it.
type Tell func(ctx context.Context, session, uid, text string) error

// Connect gives the tools the way to begin a turn by themselves. Until then they keep their news to themselves.
func (s *Set) Connect(tell Tell) {
	for _, t := range s.list() {
		if c, ok := t.(interface{ Connect(tell Tell) }); ok {
			c.Connect(tell)
		}
	}
}
