package kanban

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"gatewayd/internal/problem"
)

func TestCreateWritesWhatHermesReads(t *testing.T) {
	b := newBoard(t)
	two := int64(2)
	card := b.make(t, NewTask{
		Title: "  Tïtle ", Body: "b\xff", Assignee: "@Dev", Tenant: "acme", Priority: 5, WorkspaceKind: WorkspaceWorktree, WorkspacePath: "/src/../repo",
		BranchName: "fix", Skills: []string{"a", " é ", "a", ""}, MaxRetries: &two, GoalMode: true, GoalMaxTurns: 3, ModelOverride: "m", ProviderOverride: "p",
		CreatedBy: "user", SessionID: "s1", MaxRuntimeSeconds: 60, IdempotencyKey: "k", ReasoningEffort: "high",
	})
	if !strings.HasPrefix(card.ID, "t_") || len(card.ID) != 10 || card.Status != StatusReady || card.Title != "Tïtle" || card.Assignee != "dev" ||
		card.Body != "b\ufffd" || card.WorkspacePath != "/repo" || *card.MaxRetries != 2 || !card.GoalMode || fmt.Sprint(card.Skills) != "[a é]" {
		t.Errorf("card: %+v", card)
	}
	if got := b.scalar(t, `SELECT skills FROM tasks`); got != `["a", "\u00e9"]` {
		t.Errorf("skills: %s", got)
	}
	want := `{"assignee": "dev", "status": "ready", "parents": [], "creator_task_id": null, "tenant": "acme", "workspace_kind": "worktree", ` +
		`"workspace_path": "/repo", "branch_name": "fix", "project_id": null, "skills": ["a", "é"], "goal_mode": true, "model_override": "m", "provider_override": "p", "request": "b75aaef47f73af0d"}`
	if got := b.scalar(t, `SELECT payload FROM task_events`); got != want {
		t.Errorf("payload: %s", got)
	}
	plain := b.make(t, NewTask{})
	if got := b.scalar(t, `SELECT COUNT(*) FROM tasks WHERE id = ? AND body IS NULL AND assignee IS NULL AND skills IS NULL AND max_retries IS NULL AND
		tenant IS NULL AND idempotency_key IS NULL AND goal_mode = 0 AND workspace_kind = 'scratch' AND session_id IS NULL`, plain.ID); got != "1" {
		t.Error("what a card has not is not NULL")
	}
}

func TestCreateRefusesWhatCannotWork(t *testing.T) {
	b := newBoard(t)
	zero := int64(0)
	for name, in := range map[string]NewTask{
		"no title":              {Title: " \n"},
		"nobody by word":        {Title: "x", Assignee: "None"},
		"nobody by sign":        {Title: "x", Assignee: "@"},
		"control character":     {Title: "x", Assignee: "a\nb"},
		"comma in skill":        {Title: "x", Skills: []string{"a,b"}},
		"workspace kind":        {Title: "x", WorkspaceKind: "cloud"},
		"relative dir":          {Title: "x", WorkspaceKind: WorkspaceDir, WorkspacePath: "src"},
		"dir without path":      {Title: "x", WorkspaceKind: WorkspaceDir},
		"branch of a scratch":   {Title: "x", BranchName: "b"},
		"initial status":        {Title: "x", InitialStatus: StatusDone},
		"negative runtime":      {Title: "x", MaxRuntimeSeconds: -1},
		"no tries at all":       {Title: "x", MaxRetries: &zero},
		"provider alone":        {Title: "x", ProviderOverride: "p"},
		"reasoning effort":      {Title: "x", ReasoningEffort: "huge"},
		"relative default path": {Title: "x", WorkspaceKind: WorkspaceDir, DefaultWorkdir: "rel"},
	} {
		if _, err := b.Create(t.Context(), in); !problem.Is(err, problem.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := b.Create(t.Context(), NewTask{Title: "x", Parents: []string{"t_nobody00"}})
	wantErr(t, err, ErrNotFound)
	if got := b.scalar(t, `SELECT COUNT(*) FROM tasks`); got != "0" {
		t.Errorf("%s cards were made", got)
	}
	if card := b.make(t, NewTask{WorkspaceKind: WorkspaceDir, DefaultWorkdir: "/srv"}); card.WorkspacePath != "/srv" {
		t.Errorf("default workdir: %q", card.WorkspacePath)
	}
}

func TestStatusAtCreation(t *testing.T) {
	b := newBoard(t)
	open := b.make(t, NewTask{Tenant: "acme"})
	archived := b.make(t, NewTask{})
	if err := b.Archive(t.Context(), archived.ID); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		in   NewTask
		want Status
	}{
		"free":                    {NewTask{}, StatusReady},
		"as running":              {NewTask{InitialStatus: StatusRunning}, StatusReady},
		"waits":                   {NewTask{Parents: []string{archived.ID, open.ID}}, StatusTodo},
		"archived satisfies":      {NewTask{Parents: []string{archived.ID}}, StatusReady},
		"triage":                  {NewTask{Triage: true, Parents: []string{open.ID}}, StatusTriage},
		"blocked beats triage":    {NewTask{Triage: true, InitialStatus: StatusBlocked}, StatusBlocked},
		"the same parent, thrice": {NewTask{Parents: []string{open.ID, open.ID, open.ID}}, StatusTodo},
	} {
		card := b.make(t, c.in)
		if card.Status != c.want {
			t.Errorf("%s: %s, want %s", name, card.Status, c.want)
		}
	}
	child := b.make(t, NewTask{Parents: []string{open.ID}})
	if child.Tenant != "acme" {
		t.Errorf("tenant: %q", child.Tenant)
	}
	if p := b.lastPayload(t, child.ID, "dependency_wait"); p["reason"] != "parent_not_done" || p["parent"] != open.ID {
		t.Errorf("payload: %v", p)
	}
	b.invariants(t)
}

func TestIdempotencyKeyUnderARace(t *testing.T) {
	b := newBoard(t)
	boards := []*Board{b, openBoard(t, Options{Path: b.Path()}), openBoard(t, Options{Path: b.Path()})}
	const callers = 24
	ids, gate := make(chan string, callers), make(chan struct{})
	var ready sync.WaitGroup
	for i := range callers {
		ready.Add(1)
		go func() {
			ready.Done()
			<-gate
			card, err := boards[i%len(boards)].Create(t.Context(), NewTask{Title: fmt.Sprint("caller ", i), IdempotencyKey: "once"})
			if err != nil {
				t.Error(err)
			}
			ids <- card.ID
		}()
	}
	ready.Wait()
	close(gate)
	first := <-ids
	for range callers - 1 {
		if id := <-ids; id != first {
			t.Errorf("one key made %s and %s", first, id)
		}
	}
	if got := b.scalar(t, `SELECT COUNT(*) || ' ' || (SELECT COUNT(*) FROM task_events) FROM tasks`); got != "1 1" {
		t.Errorf("cards and events: %s", got)
	}
	// An archived card frees its key.
	if err := b.Archive(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if again := b.make(t, NewTask{IdempotencyKey: "once"}); again.ID == first {
		t.Error("an archived card was answered")
	}
}

func TestSubscriptionsAndSessionAreInherited(t *testing.T) {
	b := newBoard(t)
	parent := b.make(t, NewTask{})
	creator := b.make(t, NewTask{SessionID: "s9"})
	b.sql(t, `INSERT INTO kanban_notify_subs (task_id, platform, chat_id, thread_id, user_id, delivery_mode, delivery_metadata, created_at, last_event_id)
		VALUES (?, 'telegram', '1', 'th', 'u', 'wake', '{}', 1, 0), (?, 'slack', '2', '', NULL, 'notify', NULL, 1, 0)`, parent.ID, creator.ID)
	card := b.make(t, NewTask{Parents: []string{parent.ID}, CreatorTask: creator.ID})
	if card.SessionID != "s9" {
		t.Errorf("session: %q", card.SessionID)
	}
	want := "slack|2|||notify| telegram|1|th|u|wake|{}"
	if got := b.scalar(t, `SELECT group_concat(platform || '|' || chat_id || '|' || thread_id || '|' || COALESCE(user_id, '') || '|' || delivery_mode || '|' ||
		COALESCE(delivery_metadata, ''), ' ') FROM (SELECT * FROM kanban_notify_subs WHERE task_id = ? ORDER BY platform)`, card.ID); got != want {
		t.Errorf("subscriptions: %s", got)
	}
	if got := b.scalar(t, `SELECT COUNT(*) FROM kanban_notify_subs WHERE task_id = ? AND last_event_id = (SELECT MAX(id) FROM task_events)`, card.ID); got != "2" {
		t.Error("an inherited subscription would tell history again")
	}
	later := b.make(t, NewTask{})
	if err := b.Link(t.Context(), parent.ID, later.ID); err != nil {
		t.Fatal(err)
	}
	if got := b.scalar(t, `SELECT COUNT(*) FROM kanban_notify_subs WHERE task_id = ?`, later.ID); got != "1" {
		t.Errorf("a linked child has %s subscriptions", got)
	}
}
