package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"gatewayd/gateway/provider"
)

// Bounds of metadata, as the service that clients know has them.
const (
	maxMetadata      = 16
	maxMetadataName  = 64
	maxMetadataValue = 512
	maxConversation  = 128
)

// responseAsk is a request for a response. What it has beyond the fields read here is of no effect and passed over, but what would change
// the answer in a way that nobody does here is refused: see docs/runs.md.
type responseAsk struct {
	prompt
	Model        string
	Instructions string
	Previous     string
	Conversation string
	Store        bool
	Stream       bool
	Background   bool
	Metadata     map[string]string
	Truncation   string
	Wishes       provider.Wishes
}

// parseResponseAsk reads a body. It is pure; each error names the field.
func parseResponseAsk(body []byte) (responseAsk, error) {
	o, err := parseObject(body)
	if err != nil {
		return responseAsk{}, err
	}
	w := responseAsk{Store: true, Truncation: "disabled", Metadata: map[string]string{}}
	for _, step := range []func() error{
		func() error { return take(o, "model", &w.Model) },
		func() error { return take(o, "instructions", &w.Instructions) },
		func() error { return take(o, "previous_response_id", &w.Previous) },
		func() error { return takeConversation(o, &w.Conversation) },
		func() error { return take(o, "store", &w.Store) },
		func() error { return take(o, "stream", &w.Stream) },
		func() error { return take(o, "background", &w.Background) },
		func() error { return take(o, "truncation", &w.Truncation) },
		func() error { return takeMetadata(o, &w.Metadata) },
		func() error { return takeWishes(o, &w.Wishes, "max_output_tokens") },
		func() error { return w.takeInput(o, "input") },
		func() error { return w.check(o) },
	} {
		if err := step(); err != nil {
			return responseAsk{}, err
		}
	}
	w.System = strings.TrimSpace(strings.TrimSpace(w.Instructions) + "\n\n" + w.System)
	return w, nil
}

func (w *responseAsk) check(o object) error {
	switch {
	case w.Previous != "" && w.Conversation != "":
		return errField("previous_response_id", "and conversation exclude each other; name one of them")
	case w.Truncation != "auto" && w.Truncation != "disabled":
		return errField("truncation", "must be auto or disabled, not %.50q", w.Truncation)
	case w.Background && !w.Store:
		return errField("background", "wants store: nobody could ask for the answer")
	case w.Background && w.Stream:
		return errField("stream", "and background exclude each other; follow the run (gatewayd.run) at /v1/runs/{run}/events")
	case o.has("prompt"):
		return unsupported("prompt", "stored prompts are not known here; send instructions and input")
	case w.Previous != "":
		return w.onward("input", "previous_response_id")
	case w.Conversation != "":
		return w.onward("input", "conversation")
	}
	return plainFormat(o)
}

// plainFormat refuses a form of the answer that nobody would keep to.
func plainFormat(o object) error {
	text, err := o.sub("text")
	if err != nil {
		return err
	}
	format, err := text.sub("format")
	if err != nil {
		return err
	}
	kind := "text"
	if err := take(format, "type", &kind); err != nil || kind == "text" {
		return err
	}
	return unsupported("text.format.type", "only text is answered here; ask for JSON in the instructions")
}

func unsupported(param, message string) *refusal {
	e := errField(param, "%s", message)
	e.code = "unsupported_parameter"
	return e
}

// takeConversation reads a name, or an object with an id.
func takeConversation(o object, name *string) error {
	if o.has("conversation") && jsonKind(o.fields["conversation"]) == "an object" {
		inner, err := o.sub("conversation")
		if err != nil {
			return err
		}
		if err := take(inner, "id", name); err != nil {
			return err
		}
	} else if err := take(o, "conversation", name); err != nil {
		return err
	}
	if len(*name) > maxConversation || strings.ContainsFunc(*name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errField("conversation", "must be 1 to %d printable characters", maxConversation)
	}
	return nil
}

func takeMetadata(o object, to *map[string]string) error {
	var fields map[string]json.RawMessage
	if err := take(o, "metadata", &fields); err != nil {
		return err
	}
	if len(fields) > maxMetadata {
		return errField("metadata", "has %d entries; %d is the most", len(fields), maxMetadata)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var value string
		if json.Unmarshal(fields[name], &value) != nil {
			return errType("metadata."+name, "a string", fields[name])
		}
		if name == "" || len(name) > maxMetadataName || len(value) > maxMetadataValue {
			return errField("metadata."+name, "a name has 1 to %d bytes and a value at most %d", maxMetadataName, maxMetadataValue)
		}
		(*to)[name] = value
	}
	return nil
}

// repeated is what of the request an answer repeats.
type repeated struct {
	Model        string            `json:"model"`
	Instructions string            `json:"instructions,omitempty"`
	Metadata     map[string]string `json:"metadata"`
	Truncation   string            `json:"truncation"`
	Store        bool              `json:"store"`
	Background   bool              `json:"background"`
	Wishes       provider.Wishes   `json:"wishes,omitzero"`
}

func (w responseAsk) repeated() repeated {
	model := w.Model
	if model == "" {
		model = modelName
	}
	return repeated{model, w.Instructions, w.Metadata, w.Truncation, w.Store, w.Background, w.Wishes}
}
