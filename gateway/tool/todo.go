package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"gatewayd/gateway/provider"
)

// Bounds of a list, so that its row fits the smallest room whole: it is read back from there.
const (
	todoName    = "todo"
	maxTodos    = 64
	maxTodo     = 300   // characters of one item
	maxTodoList = 7_000 // characters of the list as it is stored
	todoLooks   = 8     // results that are looked at for the newest list; those before it may be refusals
)

// Past is the part of sessiondb.Store that knows what a tool has answered before.
type Past interface {
	// LastResults gives the newest results of a tool in a session, newest first: also those that a compaction has folded away,
	// and none that was rewound.
	LastResults(ctx context.Context, session, tool string, limit int) ([]string, error)
}

// Todo keeps a conversation's list of things to do. The list is the newest result of this tool in the session's rows: so it outlives
// a restart and a compaction, and goes back with a rewind.
type Todo struct {
	past     Past
	sessions pathLocks // one call at a time of each

	mu    sync.Mutex
	lists map[string]turnList // by session
}

// turnList is the list as the calls of one turn have made it, whose rows may not be stored yet.
type turnList struct {
	turn string
	list []todo
}

// NewTodo makes the tool.
func NewTodo(past Past) *Todo { return &Todo{past: past, lists: map[string]turnList{}} }

type todo struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  string `json:"status"`
}

type todoList struct {
	Todos []todo `json:"todos"`
}

var todoStates = []string{"pending", "in_progress", "completed", "cancelled"}

// Spec tells the model about it.
func (*Todo) Spec() provider.ToolSpec {
	return provider.ToolSpec{
		Name: todoName,
		Description: "The list of what is to be done in this conversation, for work of several steps. Without todos it is read; with todos it is " +
			"replaced, or with merge items of the same id are changed and others added. Every call answers with the whole list.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"todos":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},` +
			`"content":{"type":"string"},"status":{"type":"string","enum":["pending","in_progress","completed","cancelled"]}},"required":["id"]}},` +
			`"merge":{"type":"boolean"}}}`),
	}
}

type todoArgs struct {
	Todos *[]todo
	Merge bool
}

// ReadOnly is true for a call that brings no items.
func (*Todo) ReadOnly(raw json.RawMessage) bool {
	var args todoArgs
	return decode(raw, &args) == nil && args.Todos == nil
}

// Class: one change follows the other.
func (*Todo) Class(json.RawMessage) Class { return ClassDestructive }

// Permission: the list is the conversation's own.
func (*Todo) Permission() Permission { return NeedsOwn }

// Run reads or changes the list.
func (t *Todo) Run(ctx context.Context, call Call) Result {
	var args todoArgs
	if err := decode(call.Args, &args); err != nil {
		return Refuse("%v", err)
	}
	release, err := t.sessions.take(ctx, call.Session)
	if err != nil {
		return Refuse("the list is being changed: %v", err)
	}
	defer release()
	list, err := t.current(ctx, call)
	if err != nil {
		return Refuse("the list could not be read: %v", err)
	}
	if args.Todos == nil {
		return Result{Content: stored(list), Effect: EffectNone}
	}
	if !args.Merge {
		list = nil
	}
	if list, err = merged(list, *args.Todos); err != nil {
		return Refuse("%v; the list is as it was", err)
	}
	t.keep(call, list)
	return Result{Content: stored(list), Effect: EffectDone}
}

// current is the list as it is: what an earlier call of this very turn has made of it, else what the rows say.
func (t *Todo) current(ctx context.Context, call Call) ([]todo, error) {
	t.mu.Lock()
	here, ok := t.lists[call.Session]
	t.mu.Unlock()
	if ok && here.turn == call.Turn {
		return here.list, nil
	}
	results, err := t.past.LastResults(ctx, call.Session, todoName, todoLooks)
	if err != nil {
		return nil, err
	}
	list, _ := newest(results)
	return list, nil
}

func (t *Todo) keep(call Call, list []todo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	makePlace(t.lists, maxReaders)
	t.lists[call.Session] = turnList{call.Turn, list}
}

// newest gives the first of the results that holds a list.
func newest(results []string) ([]todo, bool) {
	for _, text := range results {
		var list todoList
		if json.Unmarshal([]byte(text), &list) == nil && list.Todos != nil {
			return list.Todos, true
		}
	}
	return nil, false
}

// merged changes items of the same id and adds the others, in their order.
func merged(list, changes []todo) ([]todo, error) {
	list = slices.Clone(list)
	for _, change := range changes {
		i := slices.IndexFunc(list, func(t todo) bool { return t.ID == change.ID })
		if i < 0 {
			list, i = append(list, todo{ID: change.ID, Status: todoStates[0]}), len(list)
		}
		if change.Content != "" {
			list[i].Content = strings.TrimSpace(change.Content)
		}
		if change.Status != "" {
			list[i].Status = change.Status
		}
		if err := list[i].check(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(list) > maxTodos:
		return nil, fmt.Errorf("the list would have %d items; at most %d", len(list), maxTodos)
	case utf8.RuneCountInString(stored(list)) > maxTodoList:
		return nil, fmt.Errorf("the list would be longer than %d characters; say it shorter, or leave out what is completed", maxTodoList)
	}
	return list, nil
}

func (t todo) check() error {
	switch {
	case t.ID == "" || len(t.ID) > 64:
		return fmt.Errorf("an item needs an id of at most 64 bytes")
	case t.Content == "":
		return fmt.Errorf("item %s is new and has no content", t.ID)
	case utf8.RuneCountInString(t.Content) > maxTodo:
		return fmt.Errorf("item %s is longer than %d characters", t.ID, maxTodo)
	case !slices.Contains(todoStates, t.Status):
		return fmt.Errorf("item %s has the status %q; known are %s", t.ID, t.Status, strings.Join(todoStates, ", "))
	}
	return nil
}

func stored(list []todo) string {
	if list == nil {
		list = []todo{}
	}
	raw, err := json.Marshal(todoList{list})
	if err != nil {
		panic("tool: a list is strings and always marshals: " + err.Error())
	}
	return string(raw)
}
