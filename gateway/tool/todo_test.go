package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// past is what the rows of a session say, newest first.
type past struct {
	results []string
	err     error
}

func (p *past) LastResults(context.Context, string, string, int) ([]string, error) {
	return p.results, p.err
}

func TestTheListIsWhatItsNewestRowSays(t *testing.T) {
	rows := &past{}
	set := NewSet(NewTodo(rows))
	turn := 0
	do := func(a m) Result {
		t.Helper()
		r := set.Run(soon(t), Call{Name: todoName, Session: "a", Turn: fmt.Sprint(turn), Policy: Policy{Context: "api"}, Args: args(a)})
		if r.Effect == EffectDone || r.Err {
			rows.results = append([]string{r.Content}, rows.results...)
		}
		turn++
		return r
	}
	item := func(id, content, status string) m { return m{"id": id, "content": content, "status": status} }
	if r := do(m{}); r.Content != `{"todos":[]}` || r.Effect != EffectNone {
		t.Errorf("%+v", r)
	}
	do(m{"todos": []m{item("1", "read", "in_progress"), item("2", "write", "")}})
	do(m{"merge": true, "todos": []m{item("1", "", "completed"), item("3", "test", "pending")}})
	for says, bad := range map[string]m{
		"has the status": {"merge": true, "todos": []m{item("1", "", "done")}}, "no content": {"merge": true, "todos": []m{item("9", "", "")}},
		"an id": {"todos": []m{item("", "x", "")}}, "longer than": {"todos": []m{item("1", strings.Repeat("x", 301), "")}},
	} {
		if r := do(bad); !r.Err || !strings.Contains(r.Content, says) || !strings.Contains(r.Content, "as it was") {
			t.Errorf("%v: %+v", bad, r)
		}
	}
	const want = `{"todos":[{"id":"1","content":"read","status":"completed"},{"id":"2","content":"write","status":"pending"},{"id":"3","content":"test","status":"pending"}]}`
	if r := do(m{}); r.Content != want {
		t.Errorf("%+v", r)
	}
	rows.results = rows.results[len(rows.results)-1:] // the turns after the first were rewound
	if r := do(m{}); !strings.Contains(r.Content, `"in_progress"`) || strings.Contains(r.Content, "test") {
		t.Errorf("%+v", r)
	}
	if r := do(m{"todos": []m{}}); r.Content != `{"todos":[]}` || r.Effect != EffectDone {
		t.Errorf("%+v", r)
	}
	rows.err = errors.New("the store is away")
	if r := do(m{}); !r.Err || !strings.Contains(r.Content, "away") {
		t.Errorf("%+v", r)
	}
}

func TestTheListFitsEveryRoom(t *testing.T) {
	set := NewSet(NewTodo(&past{}))
	var many []m
	for i := range maxTodos + 1 {
		many = append(many, m{"id": fmt.Sprint(i), "content": "x"})
	}
	if r := set.Run(soon(t), Call{Name: todoName, Policy: cli, Args: args(m{"todos": many})}); !r.Err || !strings.Contains(r.Content, "at most 64") {
		t.Errorf("%+v", r)
	}
	for i := range many[:40] {
		many[i]["content"] = strings.Repeat("x", 290)
	}
	if r := set.Run(soon(t), Call{Name: todoName, Policy: cli, Args: args(m{"todos": many[:40]})}); !r.Err || !strings.Contains(r.Content, "7000 characters") {
		t.Errorf("%+v", r)
	}
}

// Two changes in one answer follow each other, although the first one's row is not stored yet.
func TestChangesOfOneTurnAddUp(t *testing.T) {
	set := NewSet(NewTodo(&past{}))
	for i := range 3 {
		set.Run(soon(t), Call{Name: todoName, Session: "a", Turn: "t", Policy: cli, Args: args(m{"merge": true, "todos": []m{{"id": fmt.Sprint(i), "content": "x"}}})})
	}
	r := set.Run(soon(t), Call{Name: todoName, Session: "a", Turn: "t", Policy: cli, Args: args(m{})})
	if strings.Count(r.Content, `"id"`) != 3 {
		t.Errorf("%+v", r)
	}
}
