package tool

import "slices"

// Permission is what a tool's effect needs from the policy.
type Permission string

const (
	NeedsTerminal Permission = "terminal" // runs commands on this machine
	NeedsCard     Permission = "card"     // speaks for the worker's own card
	NeedsFiles    Permission = "files"    // changes files below the root for writing
	NeedsOwn      Permission = "own"      // changes only what this conversation made itself: its list, its background commands
)

// permitted is a tool with effects. A tool without it may only read: its other calls are refused.
type permitted interface{ Permission() Permission }

// commander is a tool whose call is a shell command, which the floor must see.
type commander interface{ Command(call Call) string }

// contexts are the places a call can come from. Another one is a mistake in the wiring, and may do nothing at all: a headless
// caller that is taken for a trusted one runs commands nobody asked for.
var contexts = []string{"api", "cli", "web", "worker", "notify"}

// gate decides whether a call may run, and says why not in words the model and a person can act on. Empty means yes.
func gate(t Tool, call Call) string {
	if !slices.Contains(contexts, call.Policy.Context) {
		return "the call comes from an unknown context, which may use no tools; nothing was run"
	}
	if denial := floor(t, call); denial != "" {
		return denial
	}
	p, ok := t.(permitted)
	if t.ReadOnly(call.Args) && (!ok || p.Permission() == NeedsOwn) {
		return ""
	}
	if !ok {
		return call.Name + " may only read here; nothing was run"
	}
	return permit(p.Permission(), call)
}

func permit(need Permission, call Call) string {
	switch {
	case need == NeedsTerminal && call.Policy.Terminal == Allow:
		return ""
	case need == NeedsTerminal:
		return "the terminal is switched off here (tools.terminal: deny), so the command was not run. " +
			"Tell the user that `tools.terminal: allow` in config.yaml and a restart of gatewayd would permit it"
	case need == NeedsFiles && call.Policy.Files == Allow:
		return ""
	case need == NeedsFiles:
		return "files may not be changed here (tools.files: deny), so nothing was written. " +
			"Tell the user that `tools.files: allow` in config.yaml and a restart of gatewayd would permit it"
	case need == NeedsOwn && call.Policy.Context != "notify":
		return ""
	case need == NeedsOwn:
		return call.Name + " may only read in a turn that news of another program began; nothing was changed"
	case need == NeedsCard && call.Policy.Context == "worker":
		return ""
	case need == NeedsCard:
		return call.Name + " belongs to the worker of a card; this conversation is none, so nothing was changed"
	}
	return call.Name + " needs a permission that no policy grants; nothing was run"
}

// floor refuses the few commands nobody may run through a model, whatever the policy says.
func floor(t Tool, call Call) string {
	c, ok := t.(commander)
	if !ok {
		return ""
	}
	if what := Catastrophe(c.Command(call)); what != "" {
		return "the command would " + what + ". It is refused under every setting and was not run"
	}
	return ""
}
