package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gatewayd/kanban"
)

// Card is what a worker is told of its card.
type Card struct {
	ID, Title, Body     string
	Assignee            string
	Tenant, BranchName  string
	Model, Provider     string
	Reasoning           string
	Skills              []string
	Review              bool // the worker reviews what another one did
	GoalMode            bool
	GoalMaxTurns        int64
	Kind, WorkspacePath string // workspace_kind and workspace_path as the card holds them
	Text                string // everything the worker should read: body, comments, earlier attempts, parents' results
}

// Job is one run of one card, ready to be started.
type Job struct {
	Board          string
	DB             string // the board's file
	Root           string // the board root
	Home           string
	Exe            string // this binary
	WorkspacesRoot string
	RunsDir        string // per-run directories are made below it
	LogPath        string
	LogMax         int64
	Card           Card
	Run            int64
	RunStarted     int64 // the run's started_at, epoch seconds
	Lock           string
	Lane           Lane
	Workspace      string // resolved
	MaxRuntime     time.Duration
	Token, MCPURL  string // by which the worker speaks for its run over HTTP; empty = it cannot
}

// fence is the run in the board's words.
func (j Job) fence() kanban.Fence {
	return kanban.Fence{Board: kanban.Slug(j.Board), Task: j.Card.ID, Run: kanban.RunID(j.Run), Started: j.RunStarted, Lock: j.Lock}
}

// cardID is what may name a directory and stand in an argv. Boards written by others may hold anything.
var cardID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// CheckID refuses card ids that cannot safely name a directory.
func CheckID(id string) error {
	if !cardID.MatchString(id) {
		return fmt.Errorf("workspace: card id %.80q cannot name a directory", id)
	}
	return nil
}

// KeeperID names the keeper of a run. It is a function of the run's row alone, so that a daemon that died
// between starting a worker and writing its pid down still finds it again, and never starts a second one. The
// start time is in it because run ids begin anew when a board's file is replaced by an older one.
func KeeperID(db string, run, started int64) string {
	sum := sha256.Sum256([]byte(filepath.Clean(db)))
	return fmt.Sprintf("run-%s-%d-%s", hex.EncodeToString(sum[:5]), run, strconv.FormatInt(started, 36))
}

// layout is where a run's own files are.
type layout struct{ dir, prompt, mcp string }

func (j Job) layout() layout {
	dir := filepath.Join(j.RunsDir, KeeperID(j.DB, j.Run, j.RunStarted))
	return layout{dir: dir, prompt: filepath.Join(dir, "card.md"), mcp: filepath.Join(dir, "mcp.json")}
}

// writeFiles makes the run's directory (0700), the file with the card's words and the one that names our MCP server (0600), and
// the note where its output begins.
func (j Job) writeFiles() (layout, error) {
	l := j.layout()
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return l, fmt.Errorf("make run directory: %w", err)
	}
	if err := os.WriteFile(l.prompt, []byte(j.prompt()), 0o600); err != nil {
		return l, fmt.Errorf("write card for the worker: %w", err)
	}
	if err := j.writeMCPConfig(l.mcp); err != nil {
		return l, err
	}
	return l, outputAt(j.LogPath).save(l.dir)
}

// prompt is the card's text and, for workers that end their card themselves, how they do it.
func (j Job) prompt() string {
	var b strings.Builder
	b.WriteString(j.Card.text())
	if j.Lane.Ending == ByWorker && j.Lane.Preset != "hermes" {
		fmt.Fprintf(&b, "\n# How to end this card\n\nWork in %s. When you are finished, run exactly one of these and then stop:\n\n", j.Workspace)
		if j.Card.Review {
			b.WriteString("You review what an earlier run of this card did. The first line approves it, the second sends it back.\n\n")
			fmt.Fprintf(&b, "    %s kanban complete %s --summary \"what you found, in one or two sentences\"\n", j.Exe, j.Card.ID)
			fmt.Fprintf(&b, "    %s kanban request-changes %s \"what must change\"\n", j.Exe, j.Card.ID)
		} else {
			fmt.Fprintf(&b, "    %s kanban complete %s --summary \"what you did, in one or two sentences\"\n", j.Exe, j.Card.ID)
		}
		fmt.Fprintf(&b, "    %s kanban block %s \"what you need from a person\"\n\n", j.Exe, j.Card.ID)
		b.WriteString("The tools kanban_complete and kanban_block of the MCP server gatewayd do the same, if you have them.\n")
		b.WriteString("A card that is not ended counts as not done, whatever was achieved.\n")
	}
	return b.String()
}

func (c Card) text() string {
	if c.Text != "" {
		return c.Text
	}
	return fmt.Sprintf("# %s (%s)\n\n%s\n", c.Title, c.ID, c.Body)
}

// values fill the lane's template.
func (j Job) values(l layout) Values {
	return Values{
		TaskID: j.Card.ID, RunID: strconv.FormatInt(j.Run, 10), BoardSlug: j.Board, BoardDir: filepath.Dir(j.DB),
		Workspace: j.Workspace, RunDir: l.dir, PromptFile: l.prompt, MCPConfig: l.mcp, Exe: j.Exe, Home: j.Home,
		Assignee: j.Lane.Name, Title: j.Card.Title, Prompt: j.Card.text(),
	}
}

// argv is the whole command line.
func (j Job) argv(l layout) ([]string, error) {
	argv, err := j.Lane.Template.Expand(j.values(l))
	if err != nil {
		return nil, err
	}
	switch {
	case j.Lane.Preset == "hermes":
		return hermesFlags(argv, j.Card), nil
	case j.Lane.Preset == "codex" && !j.Lane.OwnArgv:
		return append(argv[:2:2], append(codexFlags(j), argv[2:]...)...), nil // after `codex exec`
	}
	return argv, nil
}

// hermesFlags adds what the card asks of a Hermes worker. Each value is bound to its flag by `=`.
func hermesFlags(argv []string, c Card) []string {
	at := len(argv)
	for i, w := range argv {
		if w == "chat" {
			at = i
			break
		}
	}
	var extra []string
	add := func(flag, value string) {
		if value != "" {
			extra = append(extra, flag+"="+value)
		}
	}
	for _, s := range c.Skills {
		add("--skills", s)
	}
	add("--model", c.Model)
	if c.Model != "" {
		add("--provider", c.Provider)
	}
	add("--reasoning", c.Reasoning)
	return append(argv[:at:at], append(extra, argv[at:]...)...)
}
