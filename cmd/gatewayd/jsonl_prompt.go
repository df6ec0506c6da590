package main

import (
	"context"
	"encoding/json"
	"strings"

	"gatewayd/gateway/slash"
	"gatewayd/internal/problem"
)

// prompt is one text on its way, and the turn that comes of it.
type prompt struct {
	id      json.RawMessage // of its request
	session string
	command bool // it may run beside a turn
}

// submit says a text. Its answer tells that it was accepted; the turn's frames follow, message.complete is the last.
func (f *front) submit(r request) (chore, error) {
	p, err := r.read()
	if err == nil && strings.TrimSpace(p.Text) == "" {
		err = errMissing("text", "what is said")
	}
	if err != nil {
		return nil, err
	}
	mode := p.Mode
	if mode == "" {
		mode = "refuse"
	}
	return f.prompt(r, p.Session, p.Text, mode)
}

// prompt takes the place of a turn at once, so that of two prompts the second is refused, however close they come.
func (f *front) prompt(r request, named, text, mode string) (chore, error) {
	_, command, _ := slash.Parse(text)
	p := &prompt{id: r.ID, session: f.meant(named), command: command}
	if err := f.begin(p, mode); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (any, error) {
		defer f.done(p)
		return nil, f.follow(ctx, p, text, mode)
	}, nil
}

func (f *front) begin(p *prompt, mode string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other := range f.turns {
		if other.session == p.session && !p.command && mode == "refuse" {
			return errTurnRuns(p.session)
		}
	}
	f.turns[p] = true
	return nil
}

func (f *front) done(p *prompt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.turns, p)
}

func errTurnRuns(session string) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: "session " + session, What: "has a turn that runs", Fate: "nothing was stored",
		Remedy: "wait for message.complete, or use steer, queue or session.interrupt", Err: apiCode(turnRunning),
	}
}

// follow says the text and passes on what comes of it.
func (f *front) follow(ctx context.Context, p *prompt, text, mode string) error {
	resp, err := f.open(ctx, p.session, text, mode)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	turn := &turnFrames{front: f, prompt: p}
	for e, err := range events(resp.Body) {
		if err != nil {
			return f.gone(ctx, turn, err)
		}
		turn.pass(ctx, e)
	}
	if !turn.whole {
		return f.gone(ctx, turn, nil)
	}
	return nil
}

// gone says that the daemon went in the middle of a turn, and ends the program.
func (f *front) gone(ctx context.Context, turn *turnFrames, err error) error {
	if ctx.Err() != nil {
		return nil // we went
	}
	broken := errBroken(turn.prompt.session, err)
	f.notify("error", map[string]any{"session": turn.prompt.session, "code": codeDaemonGone, "message": textOf(broken)})
	if !turn.accepted {
		f.out.fail(turn.prompt.id, codeDaemonGone, textOf(broken))
	}
	select {
	case f.lost <- broken:
	default:
	}
	return nil
}

// turnFrames turns the events of one prompt into frames.
type turnFrames struct {
	*front
	prompt   *prompt
	accepted bool // the request is answered
	whole    bool // its end was seen
}

// frameOf names the frame of each event that is passed on as it is.
var frameOf = map[string]string{
	evDelta: "message.delta", evThought: "reasoning.delta", evNotice: "notice", evQueued: "queued", evModel: "model", evSteered: "steered",
	evStarted: "tool.started", evFinished: "tool.completed", evApproval: "approval.request",
}

func (t *turnFrames) pass(ctx context.Context, e event) {
	params := map[string]any{}
	if json.Unmarshal(e.data, &params) != nil {
		return
	}
	if e.name == evCommand {
		t.replied(ctx, params)
		return
	}
	t.accept(ctx)
	if name, known := frameOf[e.name]; known {
		t.notify(name, t.about(params))
		return
	}
	if e.name != evEnded && e.name != evError {
		return
	}
	t.whole = true
	t.done(t.prompt) // before anybody hears of the end: whoever does may speak at once
	if e.name == evError {
		inner, _ := params["error"].(map[string]any)
		params = map[string]any{"failed": true, "completed": false, "interrupted": false, "text": "", "error": inner["message"], "error_code": inner["code"]}
	}
	t.notify("message.complete", t.about(params))
	t.notify("session.info", map[string]any{"session": t.prompt.session, "running": false})
}

// about adds what each frame of a turn has.
func (t *turnFrames) about(params map[string]any) map[string]any {
	params["session"] = t.prompt.session
	if t.prompt.id != nil {
		params["prompt"] = t.prompt.id
	}
	return params
}

// accept answers the request of a turn, once.
func (t *turnFrames) accept(ctx context.Context) {
	if t.accepted {
		return
	}
	t.accepted = true
	if t.prompt.id != nil {
		t.out.send(map[string]any{"jsonrpc": "2.0", "id": t.prompt.id, "result": map[string]any{"accepted": true, "session": t.prompt.session}})
	}
	t.runs(ctx)
}

// runs tells that the turn has begun.
func (t *turnFrames) runs(ctx context.Context) {
	t.notify("session.info", map[string]any{"session": t.prompt.session, "running": true})
	t.mu.Lock()
	ending := t.ending
	t.mu.Unlock()
	if ending { // the end of input was quicker than the turn
		go t.stop(ctx, t.prompt.session)
	}
}

// replied answers the request of a command. Where a turn follows, frames tell of it.
func (t *turnFrames) replied(ctx context.Context, reply map[string]any) {
	follows, _ := reply["turn"].(bool)
	t.whole, t.accepted = !follows, true
	if session, isText := reply["session"].(string); isText && session != "" {
		t.moved(session)
	}
	if t.prompt.id != nil {
		t.out.send(map[string]any{"jsonrpc": "2.0", "id": t.prompt.id, "result": map[string]any{
			"accepted": true, "command": true, "session": t.prompt.session, "text": reply["text"], "data": reply["data"], "turn": follows,
		}})
	}
	if follows {
		t.runs(ctx)
	}
}

// moved follows a command that led to another conversation.
func (t *turnFrames) moved(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if session != t.prompt.session {
		t.session, t.prompt.session = session, session
	}
}
