package kanban

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

func TestGCForgetsOnlyWhatIsOldAndOver(t *testing.T) {
	b := newBoard(t)
	done, open, archived, running := b.make(t, NewTask{}), b.make(t, NewTask{}), b.make(t, NewTask{}), b.make(t, NewTask{Assignee: "dev"})
	parent := b.make(t, NewTask{})
	b.make(t, NewTask{Title: "child", Parents: []string{parent.ID}})
	for _, id := range []string{done.ID, parent.ID} {
		if err := b.Complete(t.Context(), id, Completion{Summary: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{archived.ID, parent.ID} {
		b.sql(t, `UPDATE tasks SET status = 'archived' WHERE id = ?`, id)
	}
	b.mustClaim(t, running.ID)
	b.sql(t, `INSERT INTO task_events (task_id, kind, created_at) VALUES (?, 'decomposed', 1)`, done.ID)
	b.sql(t, `UPDATE task_events SET created_at = 1000 WHERE kind <> 'completed'`)
	logs := filepath.Join(filepath.Dir(b.attachments), "logs")
	old := time.Now().Add(-40 * 24 * time.Hour)
	write := func(path string, when time.Time) string {
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(path, when, when)
		return path
	}
	goes := []string{
		write(filepath.Join(logs, done.ID+".log"), old), write(filepath.Join(logs, done.ID+".log.1"), old), write(filepath.Join(logs, "t_gone.log"), old),
		write(filepath.Join(b.workspaces, archived.ID, "deep", "f"), old), write(filepath.Join(b.attachments, done.ID, "stray"), old),
	}
	named := b.attachText(t, open.ID, "named", "x")
	os.Chtimes(named.StoredPath, old, old)
	stays := []string{
		write(filepath.Join(logs, open.ID+".log"), time.Now()), write(filepath.Join(logs, running.ID+".log"), old), write(filepath.Join(logs, "notes.txt"), old),
		write(filepath.Join(b.workspaces, open.ID, "f"), old), write(filepath.Join(b.workspaces, parent.ID, "f"), old),
		write(filepath.Join(b.attachments, done.ID, "fresh"), time.Now()), named.StoredPath,
	}
	if err := os.Symlink(filepath.Dir(b.Path()), filepath.Join(logs, "t_l.log")); err != nil {
		t.Fatal(err)
	}
	last := b.scalar(t, `SELECT max(id) FROM task_events`)
	got, err := b.GC(t.Context(), GC{Events: DefaultRetention, Logs: DefaultRetention})
	if err != nil || got.Logs != 3 || got.Workspaces != 1 || got.Strays != 1 || got.Events != 3 {
		t.Errorf("%+v %v", got, err)
	}
	for _, path := range goes {
		if exists(path) {
			t.Errorf("%s stays", path)
		}
	}
	for _, path := range stays {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	if kinds := b.kinds(t, done.ID); len(kinds) != 2 || len(b.kinds(t, open.ID)) != 2 {
		t.Errorf("done keeps %v, open %v", kinds, b.kinds(t, open.ID))
	}
	b.make(t, NewTask{})
	if b.scalar(t, `SELECT max(id) > CAST(? AS INTEGER) FROM task_events`, last) != "1" {
		t.Error("an id of an event was used again")
	}
	for _, bad := range []GC{{Events: -1}, {Logs: -time.Hour}} {
		if _, err := b.GC(t.Context(), bad); !problem.Is(err, problem.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
