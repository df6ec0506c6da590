package kanban

import (
	"path/filepath"
	"testing"
)

func TestSmoke(t *testing.T) {
	ctx := t.Context()
	b, err := Open(ctx, Options{Path: filepath.Join(t.TempDir(), "kanban.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c, err := b.Create(ctx, NewTask{Title: "a", Assignee: "x"})
	if err != nil {
		t.Fatal(err)
	}
	cl, err := b.Claim(ctx, c.ID, Claimer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", cl)
	if err := b.Spawned(ctx, c.ID, cl.Run.ID, 12, "f", "k"); err != nil {
		t.Fatal(err)
	}
	r, err := b.Running(ctx)
	t.Log(r, err)
	e, err := b.EndRun(ctx, End{Task: c.ID, Run: cl.Run.ID, Outcome: "crashed", Error: "boo", Count: true})
	t.Log(e, err)
	rr, err := b.Ready(ctx)
	t.Log(rr, err)
	d, err := b.Due(ctx)
	t.Log(d, err)
	if err := b.Complete(ctx, c.ID, Completion{Summary: "t_12345678 done"}); err != nil {
		t.Fatal(err)
	}
}
