package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/kanban"
)

// Boards is where boards come from. Acquire lends a board's open file; release gives it back.
type Boards interface {
	Boards() ([]kanban.Info, error)
	Current() kanban.Slug
	Lookup(slug kanban.Slug) (kanban.Info, error)
	Acquire(ctx context.Context, slug kanban.Slug) (board *kanban.Board, release func(), err error)
}

// Desk answers the calls of one speaker. It is safe for concurrent use.
type Desk struct {
	Boards Boards
	Worker *kanban.Fence // the run that the speaker works for; nil = a person's agent, who may do everything
	Name   string        // under which a speaker that is no worker writes; a worker writes under its run's lane

	ClaimTTL time.Duration                // how long a heartbeat extends a claim
	Wake     func(kanban.Slug)            // told of each change; nil = nobody is
	Lane     func(assignee string) string // what is wrong with an assignee, in words; nil or "" = nothing is known to be
	Fetch    *Fetcher                     // nil = the usual one
	Secrets  func() []string              // values that must never be stored, besides what looks like a secret; asked at each call; nil = none
}

// Answer is what a call came to.
type Answer struct {
	Body  map[string]any // with "ok": true, or "error"
	Err   error
	Ended bool // the worker's card has ended: it should stop
}

// Text is the answer as a model reads it: one JSON object.
func (a Answer) Text() string {
	out, err := json.Marshal(a.Body)
	if err != nil {
		return fmt.Sprintf(`{"error":%q}`, "the answer cannot be written as JSON: "+err.Error())
	}
	return string(out)
}

// Call does what a model asked for. args is a JSON object, or nothing. It returns soon after ctx ends.
func (d *Desk) Call(ctx context.Context, name string, args json.RawMessage) Answer {
	body, ended, err := d.answer(ctx, name, args)
	if err != nil {
		return Answer{Body: map[string]any{"error": words(err)}, Err: err}
	}
	body["ok"] = true
	return Answer{Body: body, Ended: ended}
}

func (d *Desk) answer(ctx context.Context, name string, raw json.RawMessage) (map[string]any, bool, error) {
	tool, err := d.find(name)
	if err != nil {
		return nil, false, err
	}
	values, err := read(tool, raw)
	if err != nil {
		return nil, false, err
	}
	c := &call{Desk: d, values: values}
	release, err := c.sit(ctx)
	if err != nil {
		return nil, false, err
	}
	defer release()
	if err := c.choose(tool); err != nil {
		return nil, false, err
	}
	body, err := tool.run(ctx, c)
	if errors.Is(err, kanban.ErrNotFound) {
		err = d.elsewhere(ctx, c, err)
	}
	if err != nil {
		return nil, false, err
	}
	if !tool.ReadOnly && d.Wake != nil {
		d.Wake(c.slug)
	}
	return body, tool.Ends && d.Worker != nil, nil
}

// call is one call under way.
type call struct {
	*Desk
	values
	slug  kanban.Slug
	board *kanban.Board // a worker's is held for its run
	actor kanban.Actor
	task  string // the card that is meant
}

// sit opens the board that is meant and finds out who speaks.
func (c *call) sit(ctx context.Context) (release func(), err error) {
	if c.slug, err = c.meant(); err != nil {
		return nil, err
	}
	board, release, err := c.Boards.Acquire(ctx, c.slug)
	if err != nil {
		return nil, err
	}
	var secrets []string
	if c.Secrets != nil {
		secrets = c.Secrets()
	}
	c.board, c.actor = board.Redacting(secrets...), kanban.Actor{Name: c.Name}
	if c.Worker != nil {
		if err := c.identify(ctx); err != nil {
			release()
			return nil, err
		}
	}
	if mutation.On("author-from-arguments") && c.text("author") != "" {
		c.actor.Name = c.text("author")
	}
	return release, nil
}

// identify holds the board for the worker's run. Its name is the run's lane, as the board knows it.
func (c *call) identify(ctx context.Context) error {
	run, err := c.board.CurrentRun(ctx, *c.Worker)
	if err != nil {
		return err
	}
	c.actor = run.Worker()
	if !mutation.On("tools-write-without-fence") {
		c.board = c.board.As(*c.Worker)
	}
	return c.board.Active(ctx, run, c.ClaimTTL)
}

// meant names the board. A worker is bound to its own: another one is refused, not ignored.
func (c *call) meant() (kanban.Slug, error) {
	given := c.text("board")
	if c.Worker != nil && given != "" && !strings.EqualFold(given, string(c.Worker.Board)) {
		return "", refuse("board "+given, "is not this worker's", "leave board out: a worker acts on board "+string(c.Worker.Board))
	}
	switch {
	case c.Worker != nil:
		return c.Worker.Board, nil
	case given == "":
		return c.Boards.Current(), nil
	}
	slug, err := kanban.ParseSlug(given)
	if err != nil {
		return "", err
	}
	_, err = c.Boards.Lookup(slug)
	return slug, err
}

// choose finds the card that is meant, the one that is named or a worker's own, and asks whether the speaker may do this to it.
func (c *call) choose(t Tool) error {
	c.task = c.text("task_id")
	if c.task == "" && c.Worker != nil {
		c.task = c.Worker.Task
	}
	switch {
	case t.takes("task_id") && c.task == "":
		return refuse("parameter task_id of "+t.Name, "is missing", "name the card; only a worker has one of its own")
	case t.ReadOnly:
		return nil
	}
	return c.actor.May(t.verb(), c.task)
}

// elsewhere says which board has a card that was not found.
func (d *Desk) elsewhere(ctx context.Context, c *call, err error) error {
	for _, id := range []string{c.task, c.text("parent_id"), c.text("child_id")} {
		if _, miss := c.board.Task(ctx, id); id == "" || !errors.Is(miss, kanban.ErrNotFound) {
			continue
		}
		slug, found := d.search(ctx, c.slug, id)
		switch {
		case !found:
			return refuse("card "+id, "is on no board of this gatewayd", "check the id; kanban_show without task_id shows a worker's own card")
		case d.Worker != nil:
			return refuse("card "+id, fmt.Sprintf("is on board %s, not on this worker's board %s", slug, c.slug), "a worker acts on its own board only; say in a comment what should happen there")
		}
		return refuse("card "+id, fmt.Sprintf("is on board %s, not on board %s", slug, c.slug), fmt.Sprintf("call again with board %q", slug))
	}
	return err
}

func (d *Desk) search(ctx context.Context, not kanban.Slug, id string) (kanban.Slug, bool) {
	boards, err := d.Boards.Boards()
	if err != nil {
		return "", false
	}
	for _, info := range boards {
		if info.Slug == not || !info.HasFile || ctx.Err() != nil {
			continue
		}
		board, release, err := d.Boards.Acquire(ctx, info.Slug)
		if err != nil {
			continue // a board that cannot be opened has its own place to be reported
		}
		_, err = board.Task(ctx, id)
		release()
		if err == nil {
			return info.Slug, true
		}
	}
	return "", false
}

func refuse(thing, what, remedy string) error {
	return &problem.Error{Kind: problem.Invalid, Thing: thing, What: what, Fate: "nothing was changed", Remedy: remedy}
}

// words are an error as a model reads it. Where the fate of the data is not said, nobody knows it.
func words(err error) string {
	if p, ok := errors.AsType[*problem.Error](err); ok && p.Fate != "" {
		return p.Error()
	}
	return err.Error() + "; whether anything was changed is not known: look with kanban_show before you try again"
}
