package gateway

import (
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
	if err != nil {
		return err
	}
	var specs []provider.ToolSpec
	if err := json.Unmarshal(told, &specs); err != nil {
		return fmt.Errorf("read the tools of the session: %w", err)
	}
	t.tools = t.tools.As(specs)
	return nil
}

// toolset is the turn's tools.
func (t *turn) toolset() *tool.Set {
	if t.tools == nil {
		return t.g.opts.Tools
	}
	return t.tools
}
