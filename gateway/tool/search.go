package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gatewayd/gateway/provider"
	"gatewayd/sessiondb"
)

// Finder is the part of sessiondb.Store that session_search needs.
type Finder interface {
	Search(ctx context.Context, q sessiondb.Query) ([]sessiondb.Hit, error)
}

// SessionSearch finds what was said before, in every conversation of this home.
type SessionSearch struct{ Store Finder }

// Spec tells the model about it.
func (SessionSearch) Spec() provider.ToolSpec {
	return provider.ToolSpec{
		Name:        "session_search",
		Description: "Search earlier conversations, this one included, for words. Newest first. Use it when the user refers to something said before.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},` +
			`"session":{"type":"string","description":"only in this session"},"limit":{"type":"integer"}},"required":["query"]}`),
	}
}

// ReadOnly is true.
func (SessionSearch) ReadOnly(json.RawMessage) bool { return true }

// Run searches.
func (s SessionSearch) Run(ctx context.Context, call Call) Result {
	var args struct {
		Query, Session string
		Limit          int
	}
	if err := decode(call.Args, &args); err != nil {
		return Refuse("%v", err)
	}
	if strings.TrimSpace(args.Query) == "" {
		return Refuse("query is empty")
	}
	hits, err := s.Store.Search(ctx, sessiondb.Query{Text: args.Query, Session: args.Session, Limit: min(max(args.Limit, 0), 50)})
	if err != nil {
		return Refuse("the search failed: %v", err)
	}
	return Result{Content: listHits(hits), Effect: EffectNone}
}

func listHits(hits []sessiondb.Hit) string {
	if len(hits) == 0 {
		return "nothing was found"
	}
	var b strings.Builder
	for _, h := range hits {
		title := h.Title
		if title == "" {
			title = h.SessionID
		}
		fmt.Fprintf(&b, "%s, session %s (%s), %s: %s\n", h.CreatedAt.UTC().Format("2006-01-02 15:04"), h.SessionID, title, h.Role,
			strings.Join(strings.Fields(h.Snippet), " "))
	}
	return b.String()
}
