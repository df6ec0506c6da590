package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gatewayd/internal/procfs"
)

// demoRow is what the demo reads of a stored row.
type demoRow struct {
	ID         int64
	UID        string
	Role       string
	Content    string
	ToolCallID string `json:"tool_call_id"`
	Effect     string
}

type demoAnswer struct {
	Choices []struct {
		Message struct{ Content string }
	}
	Usage struct {
		TotalTokens int64 `json:"total_tokens"`
	}
}

const (
	sessionHeader = "X-Gatewayd-Session-Id"
	demoSession   = "demo"
)

// chat says one thing in the demo's conversation and waits for the answer.
func (d *demo) chat(ctx context.Context, text string) (demoAnswer, error) {
	var answer demoAnswer
	body := map[string]any{"model": "gatewayd", "messages": []map[string]string{{"role": "user", "content": text}}}
	err := d.with(sessionHeader, demoSession).call(ctx, http.MethodPost, "/v1/chat/completions", body, &answer)
	if err == nil && len(answer.Choices) == 0 {
		err = errors.New("an answer without choices")
	}
	return answer, err
}

func (d *demo) rows(ctx context.Context) ([]demoRow, error) {
	var list struct{ Messages []demoRow }
	err := d.call(ctx, http.MethodGet, "/api/sessions/"+demoSession+"/messages", nil, &list)
	return list.Messages, err
}

func (d *demo) ask(ctx context.Context) error {
	answer, err := d.chat(ctx, "What does the terminal say?\n$ echo $((6*7)) from a real shell")
	if err != nil {
		return err
	}
	text := answer.Choices[0].Message.Content
	d.say("%s", strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n   "))
	rows, err := d.rows(ctx)
	if err != nil {
		return err
	}
	d.claim(strings.Contains(text, "42 from a real shell"), "the answer quotes what the command printed")
	d.claim(roles(rows) == "user assistant tool assistant", "stored rows: %s", roles(rows))
	return nil
}

func roles(rows []demoRow) string {
	var b bytes.Buffer
	for _, r := range rows {
		fmt.Fprintf(&b, "%s ", r.Role)
	}
	return strings.TrimSpace(b.String())
}

// killMidTurn starts a worker and a turn that hangs in a command, waits until both are really running, notes every
// row that the store has acknowledged, and kills the daemon as the kernel would.
func (d *demo) killMidTurn(ctx context.Context) error {
	var err error
	if d.survivor, err = d.card(ctx, "Outlive the daemon", "long"); err != nil {
		return err
	}
	pidFile := filepath.Join(d.home, "workspace", "hanging.pid") // elsewhere in the home no command may write
	go func() { _, _ = d.chat(ctx, "$ echo $$ > hanging.pid; exec sleep 600") }()
	if err := d.until(ctx, func() (bool, error) { return d.identifyHanging(pidFile) }); err != nil {
		return err
	}
	if err := d.until(ctx, func() (bool, error) { return d.survivorRuns(ctx) }); err != nil {
		return err
	}
	if d.acked, err = d.rows(ctx); err != nil {
		return err
	}
	living, err := d.processes()
	if err != nil {
		return err
	}
	d.living = len(living)
	d.claim(d.living >= 3, "%d processes of this home are found: the daemon, its keepers, a worker, a command", d.living)
	if err := d.child.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_, sig, err := d.child.Wait()
	d.claim(err == nil && sig == int(syscall.SIGKILL), "killed with %d rows acknowledged: a command and a worker were running", len(d.acked))
	return d.commandIsGone(ctx)
}

func (d *demo) identifyHanging(pidFile string) (bool, error) {
	raw, err := os.ReadFile(pidFile)
	if err != nil {
		return false, nil
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return false, nil
	}
	d.hanging, err = procfs.Identify(pid)
	return err == nil, nil
}

func (d *demo) survivorRuns(ctx context.Context) (bool, error) {
	detail, err := d.detail(ctx, d.survivor)
	return detail.count("spawned") == 1, err
}

// commandIsGone waits for the keeper to end the command's tree: a terminal command does not outlive its daemon.
func (d *demo) commandIsGone(ctx context.Context) error {
	err := poll(ctx, nil, func() (bool, error) { return !d.hanging.Alive(), nil })
	d.claim(err == nil, "its command (pid %d) was ended by its keeper", d.hanging.PID)
	return nil
}

// compareRows reads the conversation from the new daemon and holds it against what the old one had acknowledged.
func (d *demo) compareRows(ctx context.Context) error {
	rows, err := d.rows(ctx)
	if err != nil {
		return err
	}
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.UID]++
	}
	missing, twice := 0, 0
	for _, r := range d.acked {
		switch n := seen[r.UID]; {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	unknown := 0
	for _, r := range rows {
		if r.Effect == "unknown" {
			unknown++
		}
	}
	d.counted(len(d.acked), "rows acknowledged before the kill -9")
	d.counted(missing, "of them missing afterwards")
	d.counted(twice, "of them there twice")
	d.counted(unknown, "call that was cut off, answered as of unknown effect")
	d.claim(missing == 0 && twice == 0 && len(d.acked) > 0, "%d acknowledged rows: %d missing, %d twice", len(d.acked), missing, twice)
	for _, r := range rows[min(len(d.acked), len(rows)):] {
		d.say("the interrupted turn became: %-9s %s %s", r.Role, r.Effect, strings.SplitN(r.Content, "\n", 2)[0])
	}
	d.claim(roles(rows) == "user assistant tool assistant user assistant tool assistant", "the call that was cut off has a result row (effect unknown) and the roles alternate")
	answer, err := d.chat(ctx, "$ echo still here")
	d.claim(err == nil && strings.Contains(answer.Choices[0].Message.Content, "still here"), "the same conversation goes on")
	return err
}
