package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"gatewayd/gateway/provider"
	"gatewayd/gateway/tool"
)

// fixTools gives the turn its tools. Where they can change while the process lives, a session keeps those that its first request told
// the model of: the list is a part of every request's prefix. One that comes later is offered by the next session, one that goes stays
// in the list and answers with an error.
func (t *turn) fixTools() error {
	t.tools = t.g.opts.Tools
	if !t.tools.Changes() {
		return nil
	}
	told, err := t.g.opts.Store.Toolset(t.ctx, t.session.ID)
	if err == nil && told == nil {
		var list []byte
		if list, err = json.Marshal(t.tools.Now(t.ctx)); err == nil {
			told, err = t.g.opts.Store.FixToolset(t.ctx, t.session.ID, list)
		}
	}
	if err == nil {
		t.tools, err = asTold(t.tools, told)
	}
	return err
}

// toldTools are the tools that the next request of a session would tell its model of, without fixing them.
func (g *Gateway) toldTools(ctx context.Context, session string) (*tool.Set, error) {
	set := g.opts.Tools
	if !set.Changes() {
		return set, nil
	}
	told, err := g.opts.Store.Toolset(ctx, session)
	switch {
	case err != nil:
		return nil, err
	case told == nil:
		return set.As(set.Now(ctx)), nil
	}
	return asTold(set, told)
}

// asTold is a set with the list that a session keeps.
func asTold(set *tool.Set, told []byte) (*tool.Set, error) {
	var specs []provider.ToolSpec
	if err := json.Unmarshal(told, &specs); err != nil {
		return nil, fmt.Errorf("read the tools of the session: %w", err)
	}
	return set.As(specs), nil
}

// offered is what the turn's requests tell the model of.
func (t *turn) offered() []provider.ToolSpec {
	if t.bare {
		return nil
	}
	return t.toolset().Specs()
}

// toolset is the turn's tools.
func (t *turn) toolset() *tool.Set {
	if t.tools == nil {
		return t.g.opts.Tools
	}
	return t.tools
}
