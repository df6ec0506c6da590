package tool

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Approver asks a person whether a call may have its effect. Only Set.Run calls it. It returns when there is an answer, when nobody
// gave one in time, or soon after ctx ends; whatever is not an answer is a refusal.
type Approver interface {
	Approve(ctx context.Context, r Request) Decision
}

// Request is what a person is asked. Its texts hold nothing that a terminal would act on.
type Request struct {
	Session, Turn, CallID, Tool string

	Effect string   // what would be done: the command, the file, the arguments
	Reason string   // why it is asked, as clauses: "deletes a directory with all in it (rm -r build)"
	Rules  []string // names of what it touches, sorted; a decision for the session or for always covers them
}

// Decision is the answer. By says who gave it: "api", "cli alice", "timeout", "grant a1b2c3".
type Decision struct {
	ID     string // of the approval; empty where none was recorded
	Choice Choice
	By     string
	Words  string // of a refusal, for the model: why, and what would help
}

// Choice is how far an answer reaches.
type Choice string

const (
	ChoiceOnce    Choice = "once"    // this call
	ChoiceSession Choice = "session" // this call, and its rules in this session
	ChoiceAlways  Choice = "always"  // this call, and its rules everywhere, until that is revoked
	ChoiceDeny    Choice = "deny"
)

// Choices lists them in the order in which they are offered.
var Choices = []Choice{ChoiceOnce, ChoiceSession, ChoiceAlways, ChoiceDeny}

// Allows reports whether the call may run.
func (d Decision) Allows() bool {
	return d.Choice == ChoiceOnce || d.Choice == ChoiceSession || d.Choice == ChoiceAlways
}

// maxPlain bounds what a person is shown of one effect, in bytes. A command that is longer is shown with its middle left out, and
// its reason quotes the dangerous part.
const maxPlain = 4_000

// Plain makes a text of a model safe to be shown on a terminal and hard to misread: control characters, escapes, and marks that turn
// the direction of writing or have no width become visible.
func Plain(text string) string {
	var b strings.Builder
	for _, r := range Clip(strings.ToValidUTF8(text, "\uFFFD"), maxPlain) {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError, unicode.IsPrint(r) && !unicode.Is(unicode.Cf, r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}
