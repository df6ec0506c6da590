package kanban

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// NewTask is what a new card is made of. Title is required; zero values mean none.
type NewTask struct {
	Title, Body        string
	Assignee           string
	Parents            []string
	Tenant             string // default: the first parent's
	Priority           int64  // higher first
	WorkspaceKind      string // scratch, dir or worktree; default scratch
	WorkspacePath      string // absolute; default for dir and worktree: DefaultWorkdir
	DefaultWorkdir     string // the board's, from board.json
	BranchName         string // worktree only
	ProjectID          string
	Triage             bool
	InitialStatus      Status // "" or running = the usual rule; blocked = waits for a person
	IdempotencyKey     string // an open card with this key is answered instead of a new one
	OneRequest         bool   // the key is one request's alone, as over HTTP: another request under it is a conflict
	MaxRuntimeSeconds  int64
	Skills             []string
	MaxRetries         *int64
	GoalMode           bool
	GoalMaxTurns       int64
	ModelOverride      string
	ProviderOverride   string // needs ModelOverride
	ReasoningEffort    string
	CompletionContract string
	CreatedBy          string
	CreatorTask        string // the card whose worker creates this one: its session and subscriptions are inherited
	SessionID          string

	request        string // digest of what was asked for, with an idempotency key
	by, partOfTask string // who decomposed which card into this one and others
}

const (
	insertTask = `INSERT INTO tasks (id, title, body, assignee, status, priority, created_by, created_at, workspace_kind, workspace_path,
    branch_name, project_id, tenant, idempotency_key, max_runtime_seconds, skills, model_override, provider_override, reasoning_effort,
    max_retries, goal_mode, goal_max_turns, session_id, completion_contract)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	selectByKey = `SELECT ` + taskColumns + ` FROM tasks t WHERE t.idempotency_key = ? AND t.status <> 'archived'
ORDER BY t.created_at DESC, t.rowid DESC LIMIT 1`
	insertLink      = `INSERT INTO task_links (parent_id, child_id) VALUES (?, ?)`
	selectTaskTaken = `SELECT 1 FROM tasks WHERE id = ?`
	selectSession   = `SELECT session_id FROM tasks WHERE id = ?`
)

// Create makes a card. With an idempotency key that an open card has already, that card is answered and nothing is
// written, or with OneRequest it is a conflict where the card was asked for in other words: the look and the insert are one
// transaction. A card created blocked gets its blocked event, so that nothing unblocks it by itself.
func (b *Board) Create(ctx context.Context, in NewTask) (Task, error) {
	in.Title, in.Body = b.said(in.Title), b.said(in.Body)
	asked := in
	in, err := in.checked()
	if err != nil {
		return Task{}, err
	}
	if in.IdempotencyKey != "" {
		in.request = asked.digest(in)
	}
	var made Task
	err = b.write(ctx, "create card", func(t *txn) (err error) {
		if made, err = t.create(in); err != nil || t.first == 0 || !b.tells || in.SessionID == "" {
			return err
		}
		_, err = t.subscribe(NewSubscription{Task: made.ID, Kinds: NotifyKinds(), Target: TargetSession, Address: in.SessionID, By: in.CreatedBy})
		return err
	})
	if err != nil && !Committed(err) {
		return Task{}, err
	}
	return made, err
}

func (t *txn) create(in NewTask) (Task, error) {
	if in.IdempotencyKey != "" {
		found, err := collect(t.Conn, scanTask, selectByKey, in.IdempotencyKey)
		if err != nil {
			return Task{}, err
		}
		if len(found) > 0 {
			return found[0], t.replay(found[0], in)
		}
	}
	id, err := t.newTaskID()
	if err != nil {
		return Task{}, err
	}
	in, open, err := t.inherit(in)
	if err != nil {
		return Task{}, err
	}
	status := in.status(len(open) > 0)
	if err := t.insert(id, status, in); err != nil {
		return Task{}, err
	}
	if err := t.createdEvents(id, status, in, open); err != nil {
		return Task{}, err
	}
	for _, from := range slices.Concat(in.Parents, []string{in.CreatorTask}) {
		if err := t.copySubs(from, id); err != nil {
			return Task{}, err
		}
	}
	return loadTask(t.Conn, id)
}

func (in NewTask) status(waits bool) Status {
	switch {
	case in.InitialStatus == StatusBlocked:
		return StatusBlocked
	case in.Triage:
		return StatusTriage
	case waits:
		return StatusTodo
	}
	return StatusReady
}

// inherit looks at the parents: each must exist, the first one's tenant is the default, and the open ones hold the card up.
func (t *txn) inherit(in NewTask) (NewTask, []string, error) {
	var open []string
	for i, id := range in.Parents {
		parent, err := loadTask(t.Conn, id)
		if err != nil {
			return in, nil, err
		}
		if i == 0 && in.Tenant == "" {
			in.Tenant = parent.Tenant
		}
		if !parent.Status.Satisfied() {
			open = append(open, id)
		}
	}
	if in.CreatorTask != "" && in.SessionID == "" {
		if _, err := t.Row(selectSession, []any{in.CreatorTask}, &in.SessionID); err != nil {
			return in, nil, err
		}
	}
	return in, open, nil
}

func (t *txn) insert(id string, status Status, in NewTask) error {
	skills, err := encodeSkills(in.Skills)
	if err != nil {
		return err
	}
	err = t.must("insert card", insertTask, id, in.Title, opt(in.Body), opt(in.Assignee), string(status), in.Priority, opt(in.CreatedBy), t.now,
		in.WorkspaceKind, opt(in.WorkspacePath), opt(in.BranchName), opt(in.ProjectID), opt(in.Tenant), opt(in.IdempotencyKey),
		opt(in.MaxRuntimeSeconds), opt(skills), opt(in.ModelOverride), opt(in.ProviderOverride), opt(in.ReasoningEffort), in.MaxRetries,
		in.GoalMode, opt(in.GoalMaxTurns), opt(in.SessionID), opt(in.CompletionContract))
	if err != nil {
		return err
	}
	for _, parent := range in.Parents {
		if err := t.must("link card", insertLink, parent, id); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) createdEvents(id string, status Status, in NewTask, open []string) error {
	parents := in.Parents
	if parents == nil {
		parents = []string{}
	}
	var skills any
	if len(in.Skills) > 0 {
		skills = in.Skills
	}
	var goal any
	if in.GoalMode {
		goal = true
	}
	err := t.event(id, 0, "created", payload{
		{"assignee", opt(in.Assignee)},
		{"status", status},
		{"parents", parents},
		{"creator_task_id", opt(in.CreatorTask)},
		{"tenant", opt(in.Tenant)},
		{"workspace_kind", in.WorkspaceKind},
		{"workspace_path", opt(in.WorkspacePath)},
		{"branch_name", opt(in.BranchName)},
		{"project_id", opt(in.ProjectID)},
		{"skills", skills},
		{"goal_mode", goal},
		{"model_override", opt(in.ModelOverride)},
		{"provider_override", opt(in.ProviderOverride)},
	}.say("by", in.by).say("from_decompose_of", in.partOfTask).say("request", in.request))
	switch {
	case err != nil:
		return err
	case status == StatusBlocked:
		return t.event(id, 0, EventBlocked, payload{{"reason", "initial_status"}})
	case status == StatusTodo && len(open) > 0:
		return t.event(id, 0, "dependency_wait", payload{{"reason", "parent_not_done"}, {"parent", open[0]}})
	}
	return nil
}

// newTaskID is "t_" and eight hex digits that no card has.
func (t *txn) newTaskID() (string, error) {
	for range 20 {
		var raw [4]byte
		_, _ = rand.Read(raw[:])
		id := "t_" + hex.EncodeToString(raw[:])
		var one int64
		taken, err := t.Row(selectTaskTaken, []any{id}, &one)
		if err != nil || !taken {
			return id, err
		}
	}
	return "", fmt.Errorf("create card: twenty ids in a row were taken")
}

// checked is the card as it may be written, or what is wrong with it.
func (in NewTask) checked() (NewTask, error) {
	in.Title, in.Body = clean(strings.TrimSpace(in.Title)), clean(in.Body)
	if in.Title == "" {
		return in, invalidField("title", "the new card", "has no title", "give it one")
	}
	for _, step := range []func(*NewTask) error{
		(*NewTask).checkAssignee, (*NewTask).checkSkills, (*NewTask).checkWorkspace, (*NewTask).checkLimits, (*NewTask).checkModel, (*NewTask).checkContract,
	} {
		if err := step(&in); err != nil {
			return in, err
		}
	}
	in.Parents = unique(in.Parents)
	in.CreatedBy, in.Tenant = clean(strings.TrimSpace(in.CreatedBy)), clean(strings.TrimSpace(in.Tenant))
	return in, nil
}

// checkContract refuses a contract that no completion could fulfil.
func (in *NewTask) checkContract() error {
	c := strings.TrimSpace(in.CompletionContract)
	in.CompletionContract = c
	if c == "" || c == noWork || prURL.MatchString(c) || repository.MatchString(c) {
		return nil
	}
	return invalidField("completion_contract", "completion contract "+quote(c), "is not known", "use local-only, a repository as OWNER/NAME, or the URL of a pull request on GitHub")
}

func (in *NewTask) checkAssignee() (err error) {
	in.Assignee, err = parseAssignee(in.Assignee)
	return err
}

func (in *NewTask) checkSkills() error {
	skills, err := parseSkills(in.Skills)
	in.Skills = skills
	return err
}

// toolsets are what Hermes calls groups of tools. Given as a skill one is never found, and the worker starts without it.
func toolsets() []string {
	return []string{
		"browser", "clarify", "code_execution", "cronjob", "delegation", "file", "homeassistant", "image_gen", "kanban", "memory", "messaging", "moa",
		"search", "session_search", "skills", "terminal", "todo", "tts", "vision", "web",
	}
}

// parseSkills is the one rule for lists of skills: each once, in the order given.
func parseSkills(list []string) ([]string, error) {
	var skills []string
	for _, s := range list {
		s = clean(strings.TrimSpace(s))
		switch {
		case strings.Contains(s, ","):
			return nil, invalidField("skills", "skill "+quote(s), "has a comma in its name", "give each skill by itself")
		case slices.Contains(toolsets(), strings.ToLower(s)):
			return nil, invalidField("skills", "skill "+quote(s), "is the name of a toolset", "name a skill; toolsets are set for the lane")
		}
		skills = append(skills, s)
	}
	return unique(skills), nil
}

func (in *NewTask) checkWorkspace() error {
	switch in.WorkspaceKind {
	case "":
		in.WorkspaceKind = WorkspaceScratch
	case WorkspaceScratch, WorkspaceDir, WorkspaceWorktree:
	default:
		return invalidField("workspace_kind", "workspace kind "+quote(in.WorkspaceKind), "is not known", "use scratch, dir or worktree")
	}
	if in.BranchName != "" && in.WorkspaceKind != WorkspaceWorktree {
		return invalidField("branch_name", "branch "+quote(in.BranchName), "needs a workspace of kind worktree", "leave it out or set the kind")
	}
	if in.WorkspaceKind == WorkspaceScratch && in.WorkspacePath != "" {
		return invalidField("workspace_path", "workspace "+quote(in.WorkspacePath), "needs a kind: a scratch workspace gets its own place", "set the kind to dir or worktree, or leave the path out")
	}
	if in.WorkspaceKind == WorkspaceScratch {
		return nil
	}
	if in.WorkspacePath == "" {
		in.WorkspacePath = in.DefaultWorkdir
	}
	if !filepath.IsAbs(in.WorkspacePath) {
		return invalidField("workspace_path", "workspace "+quote(in.WorkspacePath), "is no absolute path", "give one, or set the board's default workdir")
	}
	in.WorkspacePath = filepath.Clean(in.WorkspacePath)
	return nil
}

func (in *NewTask) checkLimits() error {
	switch {
	case in.InitialStatus != "" && in.InitialStatus != StatusRunning && in.InitialStatus != StatusBlocked:
		return invalidField("initial_status", "initial status "+quote(string(in.InitialStatus)), "is not possible", "use blocked, or leave it out")
	case in.MaxRuntimeSeconds < 0:
		return invalidField("max_runtime_seconds", "max_runtime_seconds", "is negative", "leave it out for none")
	case in.GoalMaxTurns < 0:
		return invalidField("goal_max_turns", "goal_max_turns", "is negative", "leave it out for none")
	case in.MaxRetries != nil && *in.MaxRetries < 1:
		return invalidField("max_retries", "max_retries", "is less than 1", "1 means no retry; leave it out for the usual limit")
	}
	return nil
}

func (in *NewTask) checkModel() error {
	return checkModel(in.ModelOverride, in.ProviderOverride, in.ReasoningEffort)
}

func checkModel(model, provider, reasoning string) error {
	efforts := []string{"", "minimal", "low", "medium", "high", "xhigh", "max", "ultra", "none"}
	switch {
	case provider != "" && model == "":
		return invalidField("provider_override", "provider "+quote(provider), "is given without a model", "name the model too")
	case !slices.Contains(efforts, reasoning):
		return invalidField("reasoning_effort", "reasoning effort "+quote(reasoning), "is not known", "use one of"+strings.Join(efforts, " "))
	}
	return nil
}

// unique keeps the first of each, and nothing empty.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
