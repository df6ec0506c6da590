package tools

import (
	"context"
	"encoding/json"

	"gatewayd/kanban"
)

// How many cards kanban_list answers, and how many events kanban_show does.
const (
	listLimit = 50
	listMost  = 200
	maxEvents = 50
)

func readers() []Tool {
	return []Tool{
		{
			Name: "kanban_show", ReadOnly: true, run: show, params: []param{cardParam},
			About: "Show a card: what is to be done, its parents and children, comments, history, earlier attempts, and the text that its worker is given.",
		},
		{
			Name: "kanban_list", ReadOnly: true, person: true, run: listCards,
			About: "List the cards of a board, most urgent first.",
			params: []param{
				{name: "assignee", kind: text, about: "only cards of this lane"},
				{name: "status", kind: text, about: "only cards in this status", one: statuses()},
				{name: "tenant", kind: text, about: "only cards of this tenant"},
				{name: "include_archived", kind: flag, about: "archived cards too"},
				{name: "limit", kind: number, about: "at most so many, 1 to 200; default 50"},
			},
		},
	}
}

func statuses() (names []string) {
	for _, s := range kanban.Statuses() {
		names = append(names, string(s))
	}
	return names
}

func show(ctx context.Context, c *call) (map[string]any, error) {
	detail, err := c.board.Show(ctx, c.task)
	if err != nil {
		return nil, err
	}
	text, err := c.board.Context(ctx, c.task)
	if err != nil {
		return nil, err
	}
	if more := len(detail.Events) - maxEvents; more > 0 {
		detail.Events = detail.Events[more:]
	}
	raw, err := json.Marshal(detail)
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	body["board"], body["worker_context"] = c.slug, text
	return body, nil
}

// listed is a card in a list: enough to choose by. kanban_show has the rest.
type listed struct {
	ID        string        `json:"id"`
	Title     string        `json:"title"`
	Status    kanban.Status `json:"status"`
	Assignee  string        `json:"assignee"`
	Priority  int64         `json:"priority"`
	Tenant    string        `json:"tenant,omitempty"`
	CreatedBy string        `json:"created_by"`
	CreatedAt int64         `json:"created_at"`
}

func listCards(ctx context.Context, c *call) (map[string]any, error) {
	limit := int64(listLimit)
	if _, given := c.values["limit"]; given {
		limit = c.number("limit")
	}
	if limit < 1 || limit > listMost {
		return nil, refuse("parameter limit", "must be 1 to 200", "call again with a limit of at most 200")
	}
	cards, err := c.board.List(ctx, kanban.Filter{
		Assignee: c.text("assignee"), Status: kanban.Status(c.text("status")), Tenant: c.text("tenant"),
		Archived: c.flag("include_archived"), Limit: int(limit) + 1,
	})
	if err != nil {
		return nil, err
	}
	body := map[string]any{"board": c.slug, "limit": limit, "truncated": len(cards) > int(limit), "next_limit": nil, "promoted": 0} // listing never promotes
	if len(cards) > int(limit) {
		cards = cards[:limit]
		if limit < listMost {
			body["next_limit"] = min(2*limit, listMost)
		}
	}
	tasks := []listed{}
	for _, t := range cards {
		tasks = append(tasks, listed{t.ID, t.Title, t.Status, t.Assignee, t.Priority, t.Tenant, t.CreatedBy, t.CreatedAt})
	}
	body["tasks"], body["count"] = tasks, len(tasks)
	return body, nil
}
