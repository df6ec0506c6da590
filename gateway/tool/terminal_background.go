package tool

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gatewayd/internal/mutation"
)

const (
	sessionsFull = 4                // times BackgroundMax may run over all conversations
	keptEnded    = 16               // commands of a conversation whose end is remembered
	keptInAll    = 64               // and of all: what they said is in memory
	stopLimit    = 10 * time.Second // for a tree to be gone; above the keeper's TERM, grace and KILL
)

// background is the commands that nobody waits for, by handle, and those that somebody does, by call. A conversation sees its own.
type background struct {
	max int

	mu      sync.Mutex
	list    []*command             // with a handle, in the order of their start
	waiting map[[2]string]*command // by session and call
}

func newBackground(most int) *background {
	return &background{max: most, waiting: map[[2]string]*command{}}
}

// await notes that a turn waits for a command; forgo, that it does not any more.
func (b *background) await(c *command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[[2]string{c.session, c.call}] = c
}

func (b *background) forgo(c *command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key := [2]string{c.session, c.call}; b.waiting[key] == c {
		delete(b.waiting, key)
	}
}

func (b *background) awaited(session, call string) *command {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting[[2]string{session, call}]
}

// full says why there is no place for one more.
func (b *background) full(session string) error {
	all, mine := 0, 0
	for _, c := range b.list {
		if c.running() {
			all++
			if c.session == session {
				mine++
			}
		}
	}
	switch {
	case mine >= b.max:
		return fmt.Errorf("%d commands of this conversation run in the background already (tools.background_max); end one with process kill", mine)
	case all >= b.max*sessionsFull:
		return fmt.Errorf("%d commands run in the background already, the most there may be over all conversations", all)
	}
	return nil
}

// admit gives a running command a handle and a place.
func (b *background) admit(c *command) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.full(c.session); err != nil {
		return err
	}
	c.handle = "proc_" + strings.ToLower(rand.Text()[:12])
	b.list = append(b.list, c)
	return nil
}

// trim forgets the oldest of those that have ended.
func (b *background) trim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	ended, all := map[string]int{}, 0
	kept := make([]*command, 0, len(b.list))
	for _, c := range slices.Backward(b.list) {
		if !c.running() {
			if all++; all > keptInAll {
				continue
			}
			if ended[c.session]++; ended[c.session] > keptEnded {
				continue
			}
		}
		kept = append(kept, c)
	}
	slices.Reverse(kept)
	b.list = kept
}

// of gives a conversation's commands, oldest first.
func (b *background) of(session string) []*command {
	b.mu.Lock()
	defer b.mu.Unlock()
	var mine []*command
	for _, c := range b.list {
		if c.session == session || mutation.On("handles-of-all-conversations") {
			mine = append(mine, c)
		}
	}
	return mine
}

func (b *background) find(session, handle string) *command {
	for _, c := range b.of(session) {
		if c.handle == handle {
			return c
		}
	}
	return nil
}

// drop forgets a conversation.
func (b *background) drop(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = slices.DeleteFunc(b.list, func(c *command) bool { return c.session == session && !c.running() })
}

// runBehind starts a command that nobody waits for.
func (t *Terminal) runBehind(ctx context.Context, call Call, args terminalArgs) Result {
	sh, gone := t.shells.enter(call.Session, firstOf(call.Dir, t.opts.Dir), false)
	sh.dir = t.dir(sh.dir, args.Workdir)
	t.background.mu.Lock()
	err := t.background.full(call.Session)
	t.background.mu.Unlock()
	if err != nil {
		return Refuse("the command was not started: %v", err)
	}
	call.Progress = func() {}
	limit := timeout(args.Timeout, t.opts.BackgroundTimeout, t.opts.BackgroundTimeout)
	c := t.command(call, args, limit)
	if err := t.start(ctx, c, call, sh, limit); err != nil {
		sh.discard()
		return Refuse("the command could not be started: %v", err)
	}
	if err := t.background.admit(c); err != nil { // another call took the last place meanwhile
		c.stop(whyNoHandle)
		<-c.process.Done()
		sh.discard()
		t.forget(c)
		return Refuse("the command was started and ended again at once: %v", err)
	}
	go t.attend(c, sh)
	return Result{Content: gone + "[runs in the background: " + c.about() + "]", Effect: EffectDone}
}

// about says what a model needs to know of a command that it does not wait for.
func (c *command) about() string {
	return fmt.Sprintf("%s, pid %d. It is ended after %v, by process kill, by /stop, or with gatewayd; process shows what it says", c.handle, c.process.Child().PID, c.limit)
}

// attend sees a command in the background to its end.
func (t *Terminal) attend(c *command, sh *footing) {
	<-c.process.Done()
	sh.discard()
	t.forget(c)
	close(c.done)
	t.background.trim()
	if c.notify && c.why() == "" {
		t.news.add(c.session, c)
	}
}

func (c *command) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// StopSession ends a conversation's commands in the background.
func (t *Terminal) StopSession(ctx context.Context, session string) (stopped int) {
	var ending []*command
	for _, c := range t.background.of(session) {
		if c.running() {
			c.stop(whyStopped)
			ending = append(ending, c)
		}
	}
	for _, c := range ending {
		select {
		case <-c.done:
		case <-ctx.Done():
		}
	}
	return len(ending)
}

// DropSession forgets a conversation whose commands were stopped.
func (t *Terminal) DropSession(_ context.Context, session string) error {
	t.background.drop(session)
	t.shells.drop(session)
	return nil
}
