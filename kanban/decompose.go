package kanban

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Decomposition splits a rough idea into cards. Parents of a child are ids on the board, or "#1" for the first child of
// the list and so on, of which a child may name those before it.
type Decomposition struct {
	Children     []NewTask
	RootAssignee string // who puts the parts together; "" = as it is
	Author       string
}

const (
	maxChildren      = 100
	selectDecomposed = `SELECT 1 FROM task_events WHERE task_id = ? AND kind = 'decomposed'`
)

// Decompose makes the children of a triage card, once, and gives them in the order of the list. The card itself waits in
// todo for all of them. What a child leaves open of tenant, workspace, limits and model it has from the card.
func (b *Board) Decompose(ctx context.Context, task string, d Decomposition) ([]Task, error) {
	d, err := d.checked(task)
	if err != nil {
		return nil, err
	}
	var made []Task
	err = b.write(ctx, "decompose card", func(t *txn) (err error) {
		made, err = t.decompose(task, d)
		return err
	})
	if err != nil && !Committed(err) {
		return nil, err
	}
	return made, err
}

func (d Decomposition) checked(task string) (Decomposition, error) {
	var err error
	if n := len(d.Children); n == 0 || n > maxChildren {
		return d, invalidField("children", "the decomposition of "+cardThing(task), fmt.Sprintf("has %d cards", n), fmt.Sprintf("give 1 to %d", maxChildren))
	}
	if d.RootAssignee, err = parseAssignee(d.RootAssignee); err != nil {
		return d, err
	}
	d.Author = clean(strings.TrimSpace(d.Author))
	d.Children = slices.Clone(d.Children)
	for i, child := range d.Children {
		for _, parent := range child.Parents {
			if n, sibling := siblingNumber(parent); sibling && (n < 1 || n > i) {
				return d, invalidField("children", fmt.Sprintf("card %d of the decomposition of %s", i+1, cardThing(task)), "waits for "+quote(parent), "name a card before it, #1 is the first")
			}
		}
	}
	return d, nil
}

func siblingNumber(parent string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(strings.TrimSpace(parent), "#")
	if !ok {
		return 0, false
	}
	n, _ = strconv.Atoi(digits) // 0 where it is no number, which no card has
	return n, true
}

func (t *txn) decompose(task string, d Decomposition) ([]Task, error) {
	root, err := loadTask(t.Conn, task)
	if err != nil {
		return nil, err
	}
	var one int64
	before, err := t.Row(selectDecomposed, []any{task}, &one)
	switch {
	case err != nil:
		return nil, err
	case before:
		return nil, conflict(task, ErrConflict, "was decomposed already")
	case root.Status != StatusTriage:
		return nil, conflict(task, ErrConflict, "is %s, not in triage", root.Status)
	}
	ids, err := t.makeParts(root, d)
	if err != nil {
		return nil, err
	}
	if err := t.place(root, StatusTodo, freshStart); err != nil {
		return nil, err
	}
	if d.RootAssignee == "" {
		d.RootAssignee = root.Assignee
	}
	if err := t.must("assign card", setAssignee, opt(d.RootAssignee), task); err != nil {
		return nil, err
	}
	p := payload{{"child_ids", ids}, {"root_assignee", opt(d.RootAssignee)}}.say("author", d.Author)
	if err := t.event(task, 0, "decomposed", p); err != nil {
		return nil, err
	}
	made := make([]Task, len(ids))
	for i, id := range ids {
		if made[i], err = loadTask(t.Conn, id); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (t *txn) makeParts(root Task, d Decomposition) ([]string, error) {
	var ids []string
	for i, child := range d.Children {
		child = child.partOf(root, d.Author, ids)
		in, err := child.checked()
		if err != nil {
			return nil, fmt.Errorf("card %d of the decomposition: %w", i+1, err)
		}
		made, err := t.create(in)
		if err != nil {
			return nil, err
		}
		if err := t.linkPart(made, root); err != nil {
			return nil, err
		}
		ids = append(ids, made.ID)
	}
	return ids, nil
}

func (t *txn) linkPart(part, root Task) error {
	if err := t.linkable(part, root, 0); err != nil {
		return err
	}
	if err := t.must("link cards", insertLink, part.ID, root.ID); err != nil {
		return err
	}
	return t.event(part.ID, 0, "linked", payload{{"parent", part.ID}, {"child", root.ID}})
}

// partOf fills in what a child leaves open.
func (in NewTask) partOf(root Task, author string, made []string) NewTask {
	in.Parents = slices.Clone(in.Parents)
	for i, parent := range in.Parents {
		if n, sibling := siblingNumber(parent); sibling {
			in.Parents[i] = made[n-1]
		}
	}
	in.IdempotencyKey = "" // a card that is there already is no part of this one
	in.CreatorTask, in.partOfTask, in.by = root.ID, root.ID, author
	if in.CreatedBy == "" {
		in.CreatedBy = author
	}
	if in.Tenant == "" {
		in.Tenant = root.Tenant
	}
	if in.WorkspaceKind == "" && in.WorkspacePath == "" {
		in.WorkspaceKind, in.WorkspacePath = root.WorkspaceKind, root.ownPath()
	}
	if in.MaxRuntimeSeconds == 0 {
		in.MaxRuntimeSeconds = root.MaxRuntimeSeconds
	}
	if in.MaxRetries == nil {
		in.MaxRetries = root.MaxRetries
	}
	if in.ModelOverride == "" && in.ProviderOverride == "" {
		in.ModelOverride, in.ProviderOverride = root.ModelOverride, root.ProviderOverride
	}
	if in.ReasoningEffort == "" {
		in.ReasoningEffort = root.ReasoningEffort
	}
	return in
}

// ownPath is the workspace that a card was given, as against the one that was made for it.
func (t Task) ownPath() string {
	if t.WorkspaceKind == WorkspaceScratch {
		return ""
	}
	return t.WorkspacePath
}
