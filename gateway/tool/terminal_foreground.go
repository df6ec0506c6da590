package tool

import (
	"context"
	"time"
)

// runBefore runs a command while the turn waits.
func (t *Terminal) runBefore(ctx context.Context, call Call, args terminalArgs) Result {
	sh, gone := t.shells.enter(call.Session, firstOf(call.Dir, t.opts.Dir), true)
	defer t.shells.leave(sh)
	if args.Workdir != "" {
		sh.carries = false
		sh.dir = t.dir(sh.dir, args.Workdir)
	}
	limit := timeout(args.Timeout, t.opts.Timeout, MaxTerminalTimeout)
	c := t.command(call, args, limit)
	t.background.await(c) // before it gives its first sign of life: from then on it can be detached
	defer t.background.forgo(c)
	if err := t.start(ctx, c, call, sh, max(limit, t.opts.BackgroundTimeout)); err != nil {
		return Refuse("the command could not be started: %v", err)
	}
	if !t.wait(ctx, c) {
		return t.moveBehind(c, sh)
	}
	record := c.process.Record()
	t.forget(c)
	sh.take()
	words, failed, effect := c.outcome(record)
	result := Result{Content: gone + withEnding(clean(c.out.String()), words), Err: failed, Effect: effect}
	result.Interrupted = effect == EffectUnknown && ctx.Err() != nil
	return result
}

// wait returns true when the whole tree is gone, and false when the command was detached.
func (t *Terminal) wait(ctx context.Context, c *command) bool {
	beat, limit := time.NewTicker(terminalHeartbeat), time.NewTimer(c.limit)
	defer beat.Stop()
	defer limit.Stop()
	told, leave := ctx.Done(), c.leave
	for {
		select {
		case <-c.process.Done():
			return true
		case <-leave:
			return false
		case <-told:
			told, leave = nil, nil
			c.stop("interrupted: " + context.Cause(ctx).Error())
		case <-limit.C:
			leave = nil
			c.stop(whyTimeout)
		case <-beat.C:
			(*c.progress.Load())()
		}
	}
}

// Detach moves a command that a turn waits for to the background.
func (t *Terminal) Detach(session, call string) bool {
	c := t.background.awaited(session, call)
	return c != nil && c.depart()
}

// moveBehind gives a command that was detached its handle. One that finds no place is ended, as it would have been without.
func (t *Terminal) moveBehind(c *command, sh *footing) Result {
	sh.carries = false
	c.progress.Store(nil)
	c.limit = max(c.limit, t.opts.BackgroundTimeout)
	if err := t.background.admit(c); err != nil {
		c.stop(whyNoHandle)
		words, _, effect := c.outcome(c.process.Record())
		t.forget(c)
		return Result{Content: withEnding(clean(c.out.String()), words), Err: true, Effect: effect}
	}
	go t.attend(c, sh)
	return Result{Content: withEnding(clean(c.out.String()), "a newer message came, so it goes on in the background: "+c.about()), Effect: EffectDone}
}
