package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"gatewayd/gateway/provider"
)

// Late are tools that come and go while the process lives: those of MCP servers.
type Late interface {
	// Tools gives those that are known, sorted by name; it may wait a moment, within ctx, for those that are about to be.
	Tools(ctx context.Context) []Tool
	// Find gives one by name, at once; nil when it is not known.
	Find(name string) Tool
}

// WithLate gives a set whose sessions are told of late tools, too. The set itself has none of them: see Now.
func (s *Set) WithLate(late Late) *Set {
	out := *s.With()
	out.late = late
	return &out
}

// Changes reports whether the tools are not the same for the whole life of the process, so that each session has to keep what its model
// was told.
func (s *Set) Changes() bool { return s != nil && s.late != nil }

// Now is what a model is told that is told of tools now.
func (s *Set) Now(ctx context.Context) []provider.ToolSpec {
	specs := slices.Clone(s.Specs())
	for _, t := range s.late.Tools(ctx) {
		if s.find(t.Spec().Name) == nil {
			specs = append(specs, t.Spec())
		}
	}
	slices.SortFunc(specs, func(a, b provider.ToolSpec) int { return cmp.Compare(a.Name, b.Name) })
	return specs
}

// As is the set of a session whose model was told of these tools. A tool that is gone is still offered, and answers with an error.
func (s *Set) As(specs []provider.ToolSpec) *Set {
	out := &Set{tools: s.tools, own: s.own, late: s.late, secrets: s.secrets, specs: slices.Clone(specs), fixed: true}
	slices.SortFunc(out.specs, func(a, b provider.ToolSpec) int { return cmp.Compare(a.Name, b.Name) })
	for _, spec := range out.specs {
		out.names = append(out.names, spec.Name)
	}
	return out
}

// came finds a late tool of a session's set.
func (s *Set) came(name string) Tool {
	if _, told := slices.BinarySearch(s.names, name); !told {
		return nil
	}
	if s.late != nil {
		if t := s.late.Find(name); t != nil {
			return t
		}
	}
	return gone{name}
}

// gone is a tool that the model was told of and that is no more.
type gone struct{ name string }

func (g gone) Spec() provider.ToolSpec       { return provider.ToolSpec{Name: g.name} }
func (g gone) ReadOnly(json.RawMessage) bool { return true }
func (g gone) Run(context.Context, Call) Result {
	return Refuse("%s is not there any more, or not yet: its MCP server cannot be reached, or does not offer it now. Nothing was run", g.name)
}

// Find gives a tool of any server by the name that the model knows.
func (m *MCP) Find(name string) Tool {
	if m == nil {
		return nil
	}
	for _, s := range m.servers {
		for _, t := range s.list() {
			if t.spec.Name == name {
				return t
			}
		}
	}
	return nil
}
