package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"gatewayd/gateway/provider"
)

// Tool is one thing a model may do. It is safe for concurrent use.
type Tool interface {
	// Spec is what the model is told. It never changes while the process lives.
	Spec() provider.ToolSpec
	// ReadOnly says that a call with these arguments has no effect, so that it may be dropped or repeated.
	ReadOnly(args json.RawMessage) bool
	// Run does it. It returns soon after ctx ends, and its Result then says so. Only Set calls it.
	Run(ctx context.Context, call Call) Result
}

// Call is one call of a tool, with everything the tool may rely on.
type Call struct {
	Session, Turn, ID string
	Name              string
	Args              json.RawMessage // a JSON object
	Dir               string          // where the turn works; empty means the tool's own
	Policy            Policy
	Room              int          // characters that the result may take, so that a tool that pages makes its page fit; 0: MaxResult
	Progress          func()       // sign of life; never nil inside Run
	Log               *slog.Logger // knows session and turn; never nil inside Run

	// Shown gives the result of an earlier call as the model is still sent it, and false where its row was compacted, repaired
	// away or rewound. A tool that says "see above" asks it first; nil means that nothing can be relied on.
	Shown func(turn, call string) (string, bool)
}

// Effect is what a call may have changed.
type Effect string

const (
	EffectNone    Effect = "none"    // nothing: it was refused, or only read
	EffectDone    Effect = "done"    // it ran to its end
	EffectUnknown Effect = "unknown" // it was cut short; nobody knows how far it came
)

// Result is what the model reads. Set bounds Content; an empty Effect counts as unknown.
type Result struct {
	Content     string
	Err         bool
	Effect      Effect
	Interrupted bool // the context ended it
}

// decode reads a tool's arguments.
func decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the arguments do not fit (%w); nothing was changed", err)
	}
	return nil
}
