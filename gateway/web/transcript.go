package web

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"gatewayd/gateway/api"
	"gatewayd/sessiondb"
)

// maxShown bounds what is shown of one tool's arguments, or of its result, in bytes. The rest is a link away.
const maxShown = 4_000

// exchange is one turn as a person reads it: what was said, what was done, what came of it.
type exchange struct {
	ID      string // of the element
	First   int64  // place of its first row
	Turn    string // "" for rows that belong to none: what a client told of a conversation before ours
	Running bool
	Items   []item
}

// item is one thing in an exchange. Kind says which template shows it.
type item struct {
	Kind      string // person, answer, tool, summary, note
	Row       int64  // place in the conversation: the anchor
	At        time.Time
	Text      string
	Fate      string // the sentence that says why there is no more
	Reasoning string
	Begins    bool // it was there when the turn, or what goes on of it, began
	Tag       string
	Tool      toolCall
}

// toolCall is one call of a tool. State is a word for people; Mark the form in which it is shown beside its colour.
type toolCall struct {
	ID, Name, Label   string
	Args, Result      string
	MoreArgs, MoreOut int // bytes that are not shown
	State, Mark       string
	ResultRow         int64
}

// showing is how rows are shown: which turn runs now, if any, and how many bytes of a call.
type showing struct {
	running string
	most    int
}

// exchanges puts rows, in their order, together by turns.
func exchanges(rows []sessiondb.Message, as showing) []exchange {
	var all []exchange
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && rows[to].TurnID == rows[from].TurnID && (rows[to].TurnID != "" || rows[to].Role != "user") {
			to++
		}
		all = append(all, exchangeOf(rows[from:to], as))
		from = to
	}
	return all
}

func exchangeOf(rows []sessiondb.Message, as showing) exchange {
	turn := rows[0].TurnID
	x := exchange{ID: fmt.Sprintf("r-%d", rows[0].OriginID), First: rows[0].OriginID, Turn: turn, Running: turn != "" && turn == as.running}
	if turn != "" {
		x.ID = "t-" + turn
	}
	results := map[string]sessiondb.Message{}
	for _, row := range rows {
		if _, there := results[row.ToolCallID]; row.Role == "tool" && !there {
			results[row.ToolCallID] = row
		}
	}
	for _, row := range rows {
		x.Items = append(x.Items, itemsOf(row, results, x.Running, as.most)...)
	}
	return x
}

// itemsOf is one row as it is shown: a result together with its call, which takes it out of results.
func itemsOf(row sessiondb.Message, results map[string]sessiondb.Message, running bool, most int) []item {
	it := item{Row: row.OriginID, At: row.CreatedAt, Text: row.Content}
	switch {
	case row.Role == "tool":
		if _, alone := results[row.ToolCallID]; !alone {
			return nil
		}
		it.Kind, it.Tool = "tool", callOf(storedCall{ID: row.ToolCallID, Function: storedFunction{Name: row.ToolName}}, row, true, false, most)
		return []item{it}
	case row.Kind == sessiondb.KindSummary:
		it.Kind = "summary"
		return []item{it}
	case row.Kind == sessiondb.KindResumed:
		it.Kind, it.Begins = "note", true
		return []item{it}
	case row.Role != "user" && row.Role != "assistant":
		it.Kind = "note"
		return []item{it}
	case row.Role == "user":
		it.Kind, it.Begins = "person", row.Kind != sessiondb.KindSteer
		it.Tag = tags[row.Kind]
		return []item{it}
	}
	return answerOf(it, row, results, running, most)
}

// tags say of a row what its words do not.
var tags = map[string]string{
	sessiondb.KindSteer: "said into the running turn", "history": "told by the client", sessiondb.KindSpooled: "kept beside the store, and brought in later", "notice": "news",
}

// answerOf is what a model said, and the calls that it made.
func answerOf(it item, row sessiondb.Message, results map[string]sessiondb.Message, running bool, most int) (out []item) {
	it.Kind, it.Reasoning, it.Tag = "answer", row.Reasoning, tags[row.Kind]
	if row.Kind == "closing" {
		it.Text, it.Fate = parted(row.Content)
	}
	switch {
	case row.FinishReason == "length":
		it.Tag = "ended at its length limit"
	case row.Kind == "checkpoint":
		it.Tag = "cut short"
	}
	if strings.TrimSpace(it.Text+it.Fate+it.Reasoning) != "" {
		out = append(out, it)
	}
	for _, c := range storedCalls(row.ToolCalls) {
		result, there := results[c.ID]
		delete(results, c.ID)
		out = append(out, item{Kind: "tool", Row: row.OriginID, At: row.CreatedAt, Tool: callOf(c, result, there, running, most)})
	}
	for i := 1; i < len(out); i++ {
		out[i].Row = 0 // one anchor for each row
	}
	return out
}

// parted cuts the sentence in brackets, which says why a turn has no more of an answer, off what was said before it.
func parted(content string) (said, fate string) {
	at := strings.LastIndex(content, "\n\n[")
	if strings.HasPrefix(content, "[") && at < 0 {
		at = 0
	}
	if at < 0 || !strings.HasSuffix(content, "]") {
		return content, ""
	}
	return strings.TrimSpace(content[:at]), strings.Trim(strings.TrimSpace(content[at:]), "[]")
}

// storedCall is a call as the column holds it.
type storedCall struct {
	ID       string         `json:"id"`
	Function storedFunction `json:"function"`
	Said     string         `json:"said"` // what the model wrote, where that was no JSON object
}

type storedFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func storedCalls(column json.RawMessage) (calls []storedCall) {
	_ = json.Unmarshal(column, &calls) // a damaged column has none
	return calls
}

func callOf(c storedCall, result sessiondb.Message, there, running bool, most int) toolCall {
	args := c.Function.Arguments
	if c.Said != "" {
		args = c.Said
	}
	out := toolCall{ID: c.ID, Name: c.Function.Name, Label: api.Label(args), ResultRow: result.OriginID}
	out.Args, out.MoreArgs = clipped(indented(args), most)
	out.Result, out.MoreOut = clipped(result.Content, most)
	out.State, out.Mark = state(result, there, running)
	return out
}

// state says how a call ended, by its row alone: whether it ran, and whether anybody knows what it did.
func state(result sessiondb.Message, there, running bool) (word, mark string) {
	switch {
	case !there && running:
		return "running", "running"
	case !there:
		return "no result recorded", "other"
	case strings.HasPrefix(result.Content, "[not run"):
		return "not run", "archived"
	case result.Effect == "unknown" || result.Kind == sessiondb.KindRepair:
		return "effect unknown", "other"
	case result.Kind == sessiondb.KindInterrupted:
		return "cut short", "archived"
	case sessiondb.ResultFailed(result.Kind, result.Content) || result.Kind == "" && exitCode.MatchString(result.Content):
		return "failed", "blocked"
	}
	return "done", "done"
}

// exitCode is how a command's result ends that said by its code that it failed, in rows from before their kind was kept.
var exitCode = regexp.MustCompile(`\[exit [1-9][0-9]*\]$`)

// indented gives arguments as a person reads them: one field to a line, and its text as it is.
func indented(args string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(args), &fields) != nil {
		return args
	}
	if len(fields) == 0 {
		return ""
	}
	if len(fields) == 1 {
		for name, value := range fields {
			if text, ok := value.(string); ok {
				return name + ": " + text
			}
		}
	}
	pretty, err := json.MarshalIndent(fields, "", "  ")
	if err != nil {
		return args
	}
	return string(pretty)
}

// clipped bounds a text, and says how much is left out.
func clipped(text string, most int) (shown string, more int) {
	if len(text) <= most {
		return text, 0
	}
	shown = strings.ToValidUTF8(text[:most], "")
	return shown, len(text) - len(shown)
}
