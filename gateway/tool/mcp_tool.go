package tool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatewayd/gateway/provider"
)

// Bounds of what a server says.
const (
	maxMCPName   = 64     // what model servers accept
	maxMCPAbout  = 2_000  // bytes of a tool's description
	maxMCPSchema = 32_000 // bytes of its parameters; a tool with more is left out
	maxMCPResult = 50_000 // bytes of a result
)

// mcpTool is one tool of one server.
type mcpTool struct {
	server   *mcpServer
	remote   string // its name there
	spec     provider.ToolSpec
	readOnly bool // by its own word, of a server that is believed
	adds     bool // likewise: it takes nothing away
}

// Spec tells the model about it. The text is the server's own and is marked as such.
func (t mcpTool) Spec() provider.ToolSpec { return t.spec }

// ReadOnly believes only a server that the user trusts.
func (t mcpTool) ReadOnly(json.RawMessage) bool { return t.readOnly }

// Permission says that policy decides.
func (t mcpTool) Permission() Permission { return NeedsServer }

// Hazards asks about everything that a trusted server has not declared harmless. The rule is the tool's own name.
func (t mcpTool) Hazards(call Call) []Hazard {
	if t.readOnly || t.adds {
		return nil
	}
	what := fmt.Sprintf("uses %q of the MCP server %s, which may change or delete things", t.remote, t.server.name)
	if !t.server.conf.Trust {
		what = fmt.Sprintf("uses %q of the MCP server %s, which is not trusted", t.remote, t.server.name)
	}
	return []Hazard{{Rule: t.spec.Name, What: what, Piece: Clip(string(call.Args), maxPiece)}}
}

// toolsOf makes tools of what a server offers, sorted by name, so that the order in which it lists them does not matter.
func (s *mcpServer) toolsOf(offered []*mcp.Tool) []mcpTool {
	slices.SortFunc(offered, func(a, b *mcp.Tool) int { return cmp.Compare(a.Name, b.Name) })
	taken := map[string]bool{}
	var tools []mcpTool
	for _, o := range offered {
		t, err := s.toolOf(o)
		if err != nil {
			s.log.Warn("tool of an MCP server left out", "tool", Plain(o.Name), "error", err)
			continue
		}
		if taken[t.spec.Name] {
			t.spec.Name = mcpName(s.name, o.Name, true)
		}
		if !taken[t.spec.Name] {
			taken[t.spec.Name] = true
			tools = append(tools, t)
		}
	}
	slices.SortFunc(tools, func(a, b mcpTool) int { return cmp.Compare(a.spec.Name, b.spec.Name) })
	return tools
}

func (s *mcpServer) toolOf(o *mcp.Tool) (mcpTool, error) {
	schema, err := json.Marshal(o.InputSchema) // of a map: its keys are sorted, so the bytes are the same each time
	switch {
	case err != nil:
		return mcpTool{}, err
	case len(schema) > maxMCPSchema:
		return mcpTool{}, fmt.Errorf("its parameters take %d bytes, the limit is %d", len(schema), maxMCPSchema)
	case len(schema) == 0 || schema[0] != '{':
		schema = []byte(`{"type":"object"}`)
	}
	about := Clip(s.clean(o.Description), maxMCPAbout)
	t := mcpTool{server: s, remote: o.Name, spec: provider.ToolSpec{
		Name: mcpName(s.name, o.Name, false), Description: fmt.Sprintf("[of the MCP server %s] %s", s.name, about), Parameters: schema,
	}}
	if hints := o.Annotations; hints != nil && s.conf.Trust {
		t.readOnly = hints.ReadOnlyHint
		t.adds = hints.DestructiveHint != nil && !*hints.DestructiveHint
	}
	return t, nil
}

// mcpName makes a name that every model server accepts. One that had to be cut, or that two tools would share, carries a mark made from
// the whole of it.
func mcpName(server, tool string, marked bool) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, "mcp_"+server+"_"+tool)
	if len(safe) <= maxMCPName && !marked {
		return safe
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	mark := "_" + hex.EncodeToString(sum[:4])
	return safe[:min(len(safe), maxMCPName-len(mark))] + mark
}

// Run calls the tool and waits for its answer, for as long as the server's timeout lasts.
func (t mcpTool) Run(ctx context.Context, call Call) Result {
	session, why := t.server.current()
	if session == nil {
		return Refuse("the MCP server %s cannot be reached now (%s); nothing was run", t.server.name, why)
	}
	bound, cancel := context.WithTimeout(ctx, t.server.conf.Timeout)
	defer cancel()
	defer beats(call.Progress)()
	answer, err := session.CallTool(bound, &mcp.CallToolParams{Name: t.remote, Arguments: call.Args})
	if err != nil {
		return t.failed(ctx, bound, session, err)
	}
	effect := EffectDone
	if t.readOnly {
		effect = EffectNone
	}
	return Result{Content: Clip(t.server.printable(contentOf(answer)), maxMCPResult), Err: answer.IsError, Effect: effect}
}

// beats gives signs of life until it is stopped: the call's own timeout bounds it.
func beats(progress func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(terminalHeartbeat)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				progress()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// failed says how a call ended that has no answer. What it did until then nobody knows.
func (t mcpTool) failed(ctx, bound context.Context, session *mcp.ClientSession, err error) Result {
	fail := func(format string, args ...any) Result {
		return Result{Content: "error: " + fmt.Sprintf(format, args...), Err: true, Effect: EffectUnknown}
	}
	switch {
	case ctx.Err() != nil:
		r := fail("interrupted: %v. Its effect is UNKNOWN", context.Cause(ctx))
		r.Interrupted = true
		return r
	case bound.Err() != nil:
		return fail("the MCP server %s did not answer within %v; its effect is UNKNOWN", t.server.name, t.server.conf.Timeout)
	case wireError(err):
		return fail("the MCP server %s answered with an error: %s", t.server.name, t.server.clean(err.Error()))
	case errors.Is(err, mcp.ErrConnectionClosed), errors.Is(err, mcp.ErrSessionMissing):
		t.server.broken(session)
		if fault := t.server.faultOr(nil); fault != nil {
			return fail("the MCP server %s was left: %v; the call's effect is UNKNOWN. It is reached again in a moment", t.server.name, fault)
		}
		return fail("the MCP server %s was lost during the call; its effect is UNKNOWN. It is reached again in a moment", t.server.name)
	}
	t.server.broken(session)
	return fail("the call of the MCP server %s failed: %s; its effect is UNKNOWN", t.server.name, t.server.clean(err.Error()))
}
