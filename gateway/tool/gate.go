package tool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gatewayd/internal/mutation"
)

// Permission is what a tool's effect needs from the policy.
type Permission string

const (
	NeedsTerminal Permission = "terminal" // runs commands on this machine
	NeedsServer   Permission = "server"   // calls an MCP server
	NeedsCard     Permission = "card"     // speaks for the worker's own card
	NeedsFiles    Permission = "files"    // changes files below the root for writing
	NeedsOwn      Permission = "own"      // changes only what this conversation made itself: its list, its background commands
)

// permitted is a tool with effects. A tool without it may only read: its other calls are refused.
type permitted interface{ Permission() Permission }

// commander is a tool whose call is a shell command, in the foreground or not. The gate reads the command.
type commander interface{ Command(call Call) string }

// writer is a tool whose call writes files. It gives their full paths, links resolved where they exist.
type writer interface{ Writes(call Call) []string }

// hazardous is a tool that knows itself what of a call a person should be asked about.
type hazardous interface{ Hazards(call Call) []Hazard }

// Hazard is one thing in a call that a person is asked about. Rule is its name, which a grant covers; What says what it does, as the
// end of a sentence: "deletes a directory with all in it". Piece is the part of the command that does it.
type Hazard struct{ Rule, What, Piece string }

// RuleAny is the rule of harmless commands, for those who want to be asked about everything.
const RuleAny = "any-command"

// gate decides whether a call may run, and says why not in words the model and a person can act on; empty means yes. It is the one
// place where that is decided, in this order: a context nobody knows may do nothing; the floor holds under every setting; then the
// policy's mode; and what it leaves open is asked.
func gate(ctx context.Context, t Tool, call Call) string {
	if _, known := contexts[call.Policy.Context]; !known && !mutation.On("unknown-context-is-let-in") {
		return "the call comes from an unknown context, which may use no tools; nothing was run"
	}
	if denial := floor(t, call); denial != "" && !mutation.On("floor-yields-to-approval") {
		return denial
	}
	p, ok := t.(permitted)
	if t.ReadOnly(call.Args) && (!ok || p.Permission() == NeedsOwn) {
		return ""
	}
	if !ok {
		return call.Name + " may only read here; nothing was run"
	}
	mode, denial := permit(p.Permission(), call)
	if denial != "" || mode == Allow {
		return denial
	}
	hazards := call.Policy.open(call, hazardsOf(t, call))
	if len(hazards) == 0 && mode == AskAll && !t.ReadOnly(call.Args) {
		hazards = call.Policy.open(call, []Hazard{{Rule: RuleAny, What: "has an effect, and every effect is asked about (tools.terminal: ask-all)"}})
	}
	if len(hazards) == 0 {
		return ""
	}
	return consult(ctx, t, call, hazards)
}

// permit finds the mode for what a tool needs, or says why the policy has none.
func permit(need Permission, call Call) (mode Mode, denial string) {
	switch need {
	case NeedsTerminal:
		mode = call.Policy.Terminal
		if mode != Ask && mode != AskAll && mode != Allow {
			denial = "the terminal is switched off here (tools.terminal: deny), so the command was not run. " +
				"Tell the user that `tools.terminal: ask` in config.yaml and a restart of gatewayd would permit it"
		}
	case NeedsFiles:
		mode = call.Policy.Files
		if mode != Ask && mode != AskAll && mode != Allow {
			denial = "files may not be changed here (tools.files: deny), so nothing was written. " +
				"Tell the user that `tools.files: allow` in config.yaml and a restart of gatewayd would permit it"
		}
	case NeedsServer:
		if mode = call.Policy.servers(); mode == Deny {
			denial = call.Name + " may change something, and a turn that news of another program began may not; nothing was run"
		}
	case NeedsOwn:
		mode = Allow
		if call.Policy.Context == "notify" {
			denial = call.Name + " may only read in a turn that news of another program began; nothing was changed"
		}
	case NeedsCard:
		mode = Allow
		if call.Policy.Context != "worker" {
			denial = call.Name + " belongs to the worker of a card; this conversation is none, so nothing was changed"
		}
	default:
		denial = call.Name + " needs a permission that no policy grants; nothing was run"
	}
	return mode, denial
}

// hazardsOf collects what a person should be asked about, each rule once.
func hazardsOf(t Tool, call Call) []Hazard {
	var found []Hazard
	if c, ok := t.(commander); ok {
		found = append(found, dangers(c.Command(call), call.Policy.Self, call.Dir, standsAt(t, call))...)
	}
	if w, ok := t.(writer); ok {
		found = append(found, outside(w.Writes(call), call.Dir)...)
	}
	if h, ok := t.(hazardous); ok {
		found = append(found, h.Hazards(call)...)
	}
	return found
}

// consult asks a person, where there is one.
func consult(ctx context.Context, t Tool, call Call, hazards []Hazard) string {
	what := strings.Join(clauses(hazards), "; ")
	switch {
	case !contexts[call.Policy.Context].attended:
		return fmt.Sprintf("the call %s. That needs the approval of a person, and nobody can be asked in a %s's conversation, so it was not run. "+
			"Do it another way, or report that it needs `tools.allow: [%s]`", what, call.Policy.Context, strings.Join(rulesOf(hazards), ", "))
	case call.Policy.Approver == nil:
		return "the call " + what + ". That needs the approval of a person, and nobody can be asked here, so it was not run"
	}
	d := call.Policy.Approver.Approve(ctx, Request{
		Session: call.Session, Turn: call.Turn, CallID: call.ID, Tool: call.Name,
		Effect: Plain(effectOf(t, call)), Reason: Plain(what), Rules: rulesOf(hazards),
	})
	if d.Allows() {
		call.Log.Info("tool call approved", "tool", call.Name, "approval", d.ID, "by", d.By)
		return ""
	}
	return "the call " + what + ". It was not run: " + cmp.Or(d.Words, "it was not approved")
}

// effectOf is what a person reads: the command, else the arguments.
func effectOf(t Tool, call Call) string {
	if c, ok := t.(commander); ok {
		if command := c.Command(call); command != "" {
			return command
		}
	}
	return string(call.Args)
}

// clauses quote the part that each hazard is in, so that a long command does not hide it.
func clauses(hazards []Hazard) []string {
	var out []string
	for _, h := range hazards {
		clause := h.What
		if h.Piece != "" {
			clause += " (" + Clip(strings.Join(strings.Fields(h.Piece), " "), maxPiece) + ")"
		}
		if !slices.Contains(out, clause) && len(out) < maxClauses {
			out = append(out, clause)
		}
	}
	return out
}

const (
	maxPiece   = 200
	maxClauses = 8
)

func rulesOf(hazards []Hazard) []string {
	rules := make([]string, 0, len(hazards))
	for _, h := range hazards {
		rules = append(rules, h.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}
