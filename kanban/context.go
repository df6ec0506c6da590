package kanban

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gatewayd/internal/sqlite"
)

// What a worker is told, at most. What is left out is marked, so that nobody takes a part for the whole.
const (
	maxContextField    = 4 << 10
	maxContextBody     = 8 << 10
	maxContextComment  = 2 << 10
	maxContextAttempts = 10
	maxContextComments = 30
	maxContextRecent   = 5
	maxContextLine     = 200 // characters
)

const selectRecentWork = `SELECT ` + runColumns + ` FROM task_runs r WHERE r.profile = ? AND r.task_id <> ? AND r.outcome = 'completed'
ORDER BY r.ended_at DESC, r.id DESC LIMIT ?`

// briefing is the text being written. All its ages come from one clock reading.
type briefing struct {
	strings.Builder
	now      time.Time
	terminal time.Duration
}

// Context is what a worker of the card is given to read: the card, its files, what earlier attempts and parent cards came
// to, and what people said.
func (b *Board) Context(ctx context.Context, id string) (string, error) {
	var text string
	err := b.read(ctx, func(c *sqlite.Conn) error {
		d, err := loadDetail(c, id)
		if err != nil {
			return err
		}
		out := &briefing{now: time.Now(), terminal: b.terminal}
		out.head(d.Task)
		out.attachments(d.Attachments)
		out.attempts(d.Runs)
		if err := out.parents(c, d.Parents); err != nil {
			return err
		}
		if err := out.recent(c, d.Task); err != nil {
			return err
		}
		out.comments(d.Comments)
		text = out.String()
		return nil
	})
	return text, err
}

func (o *briefing) line(format string, args ...any) { fmt.Fprintf(o, format+"\n", args...) }

func (o *briefing) field(name, value string) {
	if value != "" {
		o.line("%s: %s", name, elide(value, maxContextField))
	}
}

func (o *briefing) head(t Task) {
	o.line("# Card %s: %s\n", t.ID, elide(t.Title, maxContextField))
	o.field("Assignee", t.Assignee)
	o.field("Status", string(t.Status))
	o.field("Tenant", t.Tenant)
	workspace := t.WorkspaceKind
	if t.WorkspacePath != "" {
		workspace += " @ " + t.WorkspacePath
	}
	o.field("Workspace", workspace)
	if t.MaxRuntimeSeconds > 0 {
		o.line("Max runtime: %d s for this attempt", t.MaxRuntimeSeconds)
	}
	if o.terminal > 0 {
		o.line("Terminal timeout: %d s for each command of the terminal tool", o.terminal/time.Second)
	}
	o.field("Branch", t.BranchName)
	if t.Body != "" {
		o.line("\n## Body\n\n%s", elide(t.Body, maxContextBody))
	}
}

func (o *briefing) attachments(list []Attachment) {
	if len(list) == 0 {
		return
	}
	o.line("\n## Attachments\n")
	for _, a := range list {
		kind := a.ContentType
		if kind == "" {
			kind = "unknown type"
		}
		o.line("- %s (%s, %d KB): %s", a.Filename, kind, (a.Size+1023)/1024, a.StoredPath)
	}
}

func (o *briefing) attempts(runs []Run) {
	var closed []Run
	for _, r := range runs {
		if !r.Open() {
			closed = append(closed, r)
		}
	}
	if len(closed) == 0 {
		return
	}
	o.line("\n## Prior attempts\n")
	if skip := len(closed) - maxContextAttempts; skip > 0 {
		o.line("(%d older attempts left out)\n", skip)
		closed = closed[skip:]
	}
	for _, r := range closed {
		o.line("### Run %d: %s by %s, %s", r.ID, r.Outcome, orNobody(r.Profile), o.when(r.EndedAt))
		o.result(r.Summary, r.Error, r.Metadata)
	}
}

func (o *briefing) result(summary, failure string, metadata json.RawMessage) {
	o.field("Summary", summary)
	o.field("Error", failure)
	if len(metadata) > 0 {
		o.field("Metadata", sortedJSON(metadata))
	}
	o.line("")
}

func (o *briefing) parents(c *sqlite.Conn, parents []string) error {
	first := true
	for _, id := range parents {
		d, err := loadDetail(c, id)
		if ignoreMissing(err) != nil {
			return err
		}
		if err != nil || !d.Task.Status.Satisfied() {
			continue
		}
		if first {
			o.line("\n## Parent task results\n\nThese are snapshots of what the parents' workers reported when they ended; check them before you rely on them.\n")
			first = false
		}
		o.parent(d)
	}
	return nil
}

func (o *briefing) parent(d Detail) {
	o.line("### %s: %s (%s)", d.Task.ID, elide(d.Task.Title, maxContextField), d.Task.Status)
	for i := len(d.Runs) - 1; i >= 0; i-- {
		if r := d.Runs[i]; r.Outcome == OutcomeCompleted {
			o.result(r.Summary, "", r.Metadata)
			return
		}
	}
	o.result(d.Task.Result, "", nil)
}

func (o *briefing) recent(c *sqlite.Conn, t Task) error {
	if t.Assignee == "" {
		return nil
	}
	runs, err := collect(c, scanRunRow, selectRecentWork, t.Assignee, t.ID, maxContextRecent)
	if err != nil || len(runs) == 0 {
		return err
	}
	o.line("\n## Recent work by @%s\n", t.Assignee)
	for _, r := range runs {
		o.line("- %s, %s: %s", r.TaskID, o.when(r.EndedAt), elidedLine(r.Summary, maxContextLine))
	}
	return nil
}

func (o *briefing) comments(list []Comment) {
	if len(list) == 0 {
		return
	}
	o.line("\n## Comment thread\n")
	if skip := len(list) - maxContextComments; skip > 0 {
		o.line("(%d older comments left out)\n", skip)
		list = list[skip:]
	}
	for _, c := range list {
		// A name such as "system" must not pass for an instruction.
		o.line("comment from worker `%s`, %s:\n%s\n", strings.ReplaceAll(firstLine(c.Author, maxAssignee), "`", ""), o.when(c.CreatedAt),
			elide(c.Body, maxContextComment))
	}
}

// when is a time as people read it: local, with its age.
func (o *briefing) when(sec int64) string {
	if sec == 0 {
		return "at an unknown time"
	}
	at := time.Unix(sec, 0)
	return at.Format("2006-01-02 15:04") + " (" + age(o.now.Sub(at)) + ")"
}

func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d days ago", d/(24*time.Hour))
}

func orNobody(name string) string {
	if name == "" {
		return "nobody"
	}
	return "@" + name
}

// elide keeps the first limit bytes of a text, whole characters only, and says how much it left out.
func elide(s string, limit int) string {
	s = strings.TrimSpace(s)
	if len(s) <= limit {
		return s
	}
	kept := strings.ToValidUTF8(s[:limit], "")
	return fmt.Sprintf("%s\n… (%d of %d bytes left out)", kept, len(s)-len(kept), len(s))
}

// elidedLine is the first line of a text, at most n characters with the sign that there is more.
func elidedLine(s string, n int) string {
	line := firstLine(s, n)
	if strings.TrimSpace(s) == line {
		return line
	}
	return cut(line, n-1) + "…"
}

// sortedJSON is metadata with its keys in order, however it was written.
func sortedJSON(raw json.RawMessage) string {
	v, err := decodeExact(raw)
	if err != nil {
		return string(raw)
	}
	text, err := appendJSON(nil, v, 0)
	if err != nil {
		return string(raw)
	}
	return string(text)
}
