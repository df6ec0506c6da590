// Package slash is what a person can ask of a conversation without the model: begin anew, take back, stop, look, choose. The HTTP
// API, the command line and the page run the same commands here; how each answers, whether it may run beside a turn, and what is a
// command at all and what a mere text that begins with a slash, is written once.
package slash

import (
	"fmt"
	"slices"
	"strings"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// Policy says what becomes of a command while a turn of its conversation runs.
type Policy string

// The policies.
const (
	Beside Policy = "beside" // it runs at once
	Idle   Policy = "idle"   // it is refused, with what to do
	Queued Policy = "queued" // what it says waits behind the turn
)

// Command is one command as a person is told of it. Names are lower case.
type Command struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Args    string   `json:"args,omitempty"` // "[n]"
	About   string   `json:"about"`
	Busy    Policy   `json:"busy"`
}

// commands are all there are, in the order in which help shows them.
var commands = []Command{
	{"new", []string{"reset"}, "[name] [now]", "begin a new conversation here; the old one stays readable", Beside},
	{"undo", nil, "[n]", "take back the last exchange, or the last n", Idle},
	{"retry", nil, "", "take back the last answer and ask again", Idle},
	{"compress", []string{"compact"}, "[here N | topic] [--preview]", "fold the older part into a summary", Idle},
	{"status", nil, "", "what this conversation is and what runs; needs no model", Beside},
	{"stop", []string{"interrupt"}, "", "end the running turn and what it started in the background", Beside},
	{"model", nil, "[name | default] [--once]", "which model answers here, or choose another", Beside},
	{"resume", nil, "[id or title]", "go on with another conversation", Idle},
	{"sessions", nil, "[search]", "list conversations, or find one by what was said", Beside},
	{"title", nil, "[text]", "show or set the title", Beside},
	{"usage", nil, "", "tokens and calls of this conversation; needs no model", Beside},
	{"queue", nil, "TEXT", "say TEXT when the running turn has ended", Queued},
	{"steer", nil, "TEXT", "say TEXT into the running turn, after its next tool result", Beside},
	{"busy", nil, "[queue | steer | redirect | interrupt]", "what a message means that comes while a turn runs here", Beside},
	{"approve", nil, "[id] [session | always]", "let a tool do what it asks to do", Beside},
	{"deny", nil, "[id]", "refuse what a tool asks to do", Beside},
	{"help", []string{"commands"}, "[command]", "this list", Beside},
}

// Commands lists all commands.
func Commands() []Command { return slices.Clone(commands) }

// Line is a text that was read as a command line.
type Line struct {
	Command Command
	Args    string // what follows the name, without blanks around it
}

// Parse reads a text. ok is false for an ordinary text: one that does not begin with a slash, or whose first word is no name (a
// path), or is the beginning of no command's. An error is for a person: the name fits several commands, or is one letter away from
// one. Names are matched without regard to case, whole or by a beginning that only one command has.
func Parse(text string) (line Line, ok bool, err error) {
	name, args, isName := split(text)
	if !isName {
		return Line{}, false, nil
	}
	found := named(name)
	switch {
	case len(found) == 1:
		return Line{found[0], args}, true, nil
	case len(found) > 1:
		return Line{}, true, errName(name, "fits several commands: "+list(found))
	}
	if near := nearest(name); near != "" && args == "" {
		return Line{}, true, errName(name, "is no command; /"+near+" is one. "+all())
	}
	return Line{}, false, nil
}

// ParseLine is Parse for a text that can only be a command: an ordinary text is an error that says what exists.
func ParseLine(text string) (Line, error) {
	if trimmed := strings.TrimSpace(text); !strings.HasPrefix(trimmed, "/") {
		text = "/" + trimmed
	}
	line, ok, err := Parse(text)
	if err == nil && !ok {
		name, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		err = errName(strings.TrimPrefix(name, "/"), "is no command. "+all())
	}
	return line, err
}

// split cuts a text into the word after the slash and the rest. Only letters and hyphens make a name.
func split(text string) (name, args string, ok bool) {
	rest, slashed := strings.CutPrefix(strings.TrimSpace(text), "/")
	if !slashed {
		return "", "", false
	}
	name = rest
	if i := strings.IndexAny(rest, " \t\r\n"); i >= 0 {
		name, args = rest[:i], strings.TrimSpace(rest[i:])
	}
	name = strings.ToLower(name)
	return name, args, name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// named gives the commands that a name may mean: the one that has it whole, or those that begin with it.
func named(name string) (found []Command) {
	for _, c := range commands {
		if c.Name == name || slices.Contains(c.Aliases, name) {
			return []Command{c}
		}
	}
	if mutation.On("command-needs-its-whole-name") {
		return nil
	}
	for _, c := range commands {
		if strings.HasPrefix(c.Name, name) || slices.ContainsFunc(c.Aliases, func(a string) bool { return strings.HasPrefix(a, name) }) {
			found = append(found, c)
		}
	}
	return found
}

// nearest gives the name that a word of three letters or more misses by one slip of the fingers: a letter too many, too few,
// another one, or two that changed places. Such a word alone is a command that was misspelt, and no message.
func nearest(name string) string {
	if len(name) < 3 {
		return ""
	}
	for _, c := range commands {
		for _, known := range append([]string{c.Name}, c.Aliases...) {
			if slip(name, known) {
				return known
			}
		}
	}
	return ""
}

func slip(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	rest, other := a[i:], b[i:]
	switch {
	case len(b)-len(a) > 1:
		return false
	case len(b)-len(a) == 1:
		return rest == other[1:]
	case len(rest) == 0:
		return true
	case rest[1:] == other[1:]:
		return true
	}
	return len(rest) > 1 && rest[0] == other[1] && rest[1] == other[0] && rest[2:] == other[2:]
}

func list(of []Command) string {
	names := make([]string, len(of))
	for i, c := range of {
		names[i] = "/" + c.Name
	}
	return strings.Join(names, ", ")
}

func all() string { return "There are " + list(commands) }

func errName(name, what string) error {
	return &problem.Error{Kind: problem.Invalid, Thing: fmt.Sprintf("/%.50s", name), What: what, Fate: "nothing was done"}
}

// errUsage says how a command is written.
func errUsage(c Command, format string, args ...any) error {
	return &problem.Error{
		Kind: problem.Invalid, Thing: "/" + c.Name, What: fmt.Sprintf(format, args...), Fate: "nothing was done",
		Remedy: "write /" + strings.TrimSpace(c.Name+" "+c.Args),
	}
}
