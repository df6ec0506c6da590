package kanban

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/sqlite"
)

// The test binary starts itself to be the other process of a test: the variable names the role, the next one the file.
const (
	roleVar = "KANBAN_TEST_ROLE"
	fileVar = "KANBAN_TEST_FILE"
	cardVar = "KANBAN_TEST_CARD"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVar); role {
	case "":
	case "move":
		os.Exit(playMove())
	case "steps":
		os.Exit(playSteps())
	default:
		os.Exit(playRole(role))
	}
	os.Exit(m.Run())
}

// playRole waits for the parent to close stdin, so that all processes of a test begin together.
func playRole(role string) int {
	_, _ = os.Stdin.Read(make([]byte, 1))
	ctx := context.Background()
	b, err := Open(ctx, Options{Path: os.Getenv(fileVar), Create: role == "create"})
	if err != nil {
		os.Stdout.WriteString("open: " + err.Error())
		return 1
	}
	if role == "claim" {
		_, err = b.Claim(ctx, os.Getenv(cardVar), Claimer{})
		switch {
		case err == nil:
			os.Stdout.WriteString("won")
		case errors.Is(err, ErrTaken):
			os.Stdout.WriteString("lost")
		default:
			os.Stdout.WriteString("claim: " + err.Error())
		}
	}
	if role == "wake" {
		woken, _, err := b.WakeDue(ctx, time.Now().Add(24*time.Hour))
		if err != nil {
			os.Stdout.WriteString("wake: " + err.Error())
			return 1
		}
		os.Stdout.WriteString(strings.Join(woken, " "))
	}
	if err := b.Close(); err != nil {
		os.Stdout.WriteString("close: " + err.Error())
		return 1
	}
	return 0
}

// together starts n processes in a role, lets them go at once, and gives what each said.
func together(t *testing.T, n int, role, file, card string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gate, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmds := make([]*exec.Cmd, n)
	said := make([]strings.Builder, n)
	for i := range cmds {
		cmds[i] = exec.Command(exe)
		cmds[i].Env = append(os.Environ(), roleVar+"="+role, fileVar+"="+file, cardVar+"="+card)
		cmds[i].Stdin, cmds[i].Stdout, cmds[i].Stderr = gate, &said[i], &said[i]
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	gate.Close()
	hold.Close()
	out := make([]string, n)
	for i, cmd := range cmds {
		err := cmd.Wait()
		if out[i] = said[i].String(); err != nil {
			t.Errorf("process %d: %v: %s", i, err, out[i])
		}
	}
	return out
}

func newBoard(t *testing.T) *Board {
	t.Helper()
	return openBoard(t, Options{Path: filepath.Join(t.TempDir(), "kanban.db"), Create: true})
}

func openBoard(t *testing.T, opts Options) *Board {
	t.Helper()
	b, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatalf("open board: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close board: %v", err)
		}
	})
	return b
}

func (b *Board) make(t *testing.T, in NewTask) Task {
	t.Helper()
	if in.Title == "" {
		in.Title = "a card"
	}
	task, err := b.Create(t.Context(), in)
	if err != nil {
		t.Fatalf("create card: %v", err)
	}
	return task
}

func (b *Board) mustClaim(t *testing.T, id string) RunID {
	t.Helper()
	claim, err := b.Claim(t.Context(), id, Claimer{})
	if err != nil {
		t.Fatalf("claim card: %v", err)
	}
	return claim.Run.ID
}

func (b *Board) get(t *testing.T, id string) Task {
	t.Helper()
	task, err := b.Task(t.Context(), id)
	if err != nil {
		t.Fatalf("read card: %v", err)
	}
	return task
}

func (b *Board) wantStatus(t *testing.T, id string, want Status) {
	t.Helper()
	if got := b.get(t, id).Status; got != want {
		t.Errorf("card %s is %s, want %s", id, got, want)
	}
}

func (b *Board) kinds(t *testing.T, id string) []string {
	t.Helper()
	events, err := b.TaskEvents(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// lastPayload is the payload of the newest event of a kind.
func (b *Board) lastPayload(t *testing.T, id, kind string) map[string]any {
	t.Helper()
	events, err := b.TaskEvents(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(events) {
		if e.Kind == kind {
			var m map[string]any
			if len(e.Payload) > 0 {
				if err := json.Unmarshal(e.Payload, &m); err != nil {
					t.Fatal(err)
				}
			}
			return m
		}
	}
	t.Fatalf("card %s has no event %s, only %v", id, kind, b.kinds(t, id))
	return nil
}

func (b *Board) runs(t *testing.T, id string) []Run {
	t.Helper()
	runs, err := b.Runs(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// sql changes the file as another program would.
func (b *Board) sql(t *testing.T, sql string, args ...any) {
	t.Helper()
	err := b.file.Write(t.Context(), sqlite.Op{Label: "test", Do: func(tx *sqlite.Tx) error {
		_, err := tx.Exec(sql, args...)
		return err
	}})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (b *Board) scalar(t *testing.T, sql string, args ...any) string {
	t.Helper()
	var s string
	err := b.file.Read(t.Context(), func(c *sqlite.Conn) error {
		_, err := c.Row(sql, args, &s)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

// invariants checks what must hold on every board at every moment.
func (b *Board) invariants(t interface {
	Helper()
	Errorf(string, ...any)
},
) {
	t.Helper()
	err := b.file.Read(context.Background(), func(c *sqlite.Conn) error {
		for what, sql := range map[string]string{
			"card with a current run that is not open":  `SELECT t.id FROM tasks t WHERE current_run_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM task_runs r WHERE r.id = t.current_run_id AND r.task_id = t.id AND r.ended_at IS NULL)`,
			"open run that is nobody's current":         `SELECT r.task_id FROM task_runs r WHERE r.ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.current_run_id = r.id)`,
			"running card without run or claim":         `SELECT id FROM tasks WHERE status = 'running' AND (current_run_id IS NULL OR claim_lock IS NULL OR claim_expires IS NULL)`,
			"claim on a card that is not running":       `SELECT id FROM tasks WHERE status <> 'running' AND (claim_lock IS NOT NULL OR worker_pid IS NOT NULL OR current_run_id IS NOT NULL)`,
			"ready card with an open parent":            `SELECT t.id FROM tasks t JOIN task_links l ON l.child_id = t.id JOIN tasks p ON p.id = l.parent_id WHERE t.status IN ('ready') AND p.status NOT IN ('done', 'archived')`,
			"closed run without an outcome":             `SELECT task_id FROM task_runs WHERE ended_at IS NOT NULL AND outcome IS NULL`,
			"done card without a time":                  `SELECT id FROM tasks WHERE status = 'done' AND completed_at IS NULL`,
			"payload that is no object":                 `SELECT task_id FROM task_events WHERE payload IS NOT NULL AND json_type(payload) IS NOT 'object'`,
			"card with as many failures as trip it":     `SELECT id FROM tasks WHERE status = 'ready' AND max_retries IS NOT NULL AND consecutive_failures >= max_retries`,
			"card that waits for itself":                `WITH RECURSIVE up(c, p) AS (SELECT child_id, parent_id FROM task_links UNION SELECT up.c, l.parent_id FROM up JOIN task_links l ON l.child_id = up.p) SELECT c FROM up WHERE c = p`,
			"event of a card with no created event":     `SELECT id FROM tasks t WHERE NOT EXISTS (SELECT 1 FROM task_events e WHERE e.task_id = t.id AND e.kind = 'created')`,
			"completed event without a completed run":   `SELECT e.task_id FROM task_events e LEFT JOIN task_runs r ON r.id = e.run_id WHERE e.kind = 'completed' AND r.outcome IS NOT 'completed'`,
			"two completions of one run":                `SELECT task_id FROM task_events WHERE kind = 'completed' GROUP BY run_id HAVING COUNT(*) > 1`,
			"claimed event count differs from its runs": `SELECT r.task_id FROM task_runs r WHERE r.claim_lock IS NOT NULL AND (SELECT COUNT(*) FROM task_events e WHERE e.run_id = r.id AND e.kind = 'claimed') <> 1`,
		} {
			ids, err := texts(c, sql)
			if err != nil {
				return err
			}
			if len(ids) > 0 {
				t.Errorf("%s: %v", what, ids)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("read invariants: %v", err)
	}
}
