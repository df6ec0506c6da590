package api

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	"gatewayd/gateway"
)

// progressEvent names the events that tell of tools. Their data is a chunk with an empty delta beside our own fields, because client
// libraries hand events of unknown names to programs that only know chunks.
const progressEvent = "gatewayd.tool.progress"

// maxLabel bounds what is shown of a call's arguments.
const maxLabel = 200

// chunkWriter writes a stream of chat.completion.chunk.
type chunkWriter struct {
	*sse
	id, model string
	created   int64
	reasoning bool

	shown     strings.Builder
	afterTool bool // a tool ran since the last text
	labels    map[string]string
}

func newID() string { return strings.ToLower(rand.Text()) }

// begin sends the headers and the first chunk, once.
func (o *chunkWriter) begin() {
	if o.start() {
		o.chunk("", map[string]any{"role": "assistant", "content": ""}, nil, nil)
	}
}

// event shows what happened in the turn.
func (o *chunkWriter) event(e gateway.Event) {
	switch e.Kind {
	case gateway.EventDelta:
		o.text(e.Text)
	case gateway.EventReasoning:
		if o.reasoning && e.Text != "" {
			o.begin()
			o.chunk("", map[string]any{"reasoning_content": e.Text}, nil, nil)
		}
	case gateway.EventToolStarted:
		o.progress(e, "running")
	case gateway.EventToolFinished:
		status := "completed"
		if e.Err {
			status = "failed"
		}
		o.progress(e, status)
	case gateway.EventApproval:
		o.approval(e)
	case gateway.EventNotice:
		o.comment(e.Text)
	}
}

// text sends a piece of the answer. What the model said before and after a tool are two paragraphs.
func (o *chunkWriter) text(text string) {
	if text == "" {
		return
	}
	o.begin()
	if o.afterTool && o.shown.Len() > 0 && !strings.HasSuffix(o.shown.String(), "\n") {
		text = "\n\n" + strings.TrimLeft(text, "\n")
	}
	o.afterTool = false
	o.shown.WriteString(text)
	o.chunk("", map[string]any{"content": text}, nil, nil)
}

func (o *chunkWriter) visible() bool { return strings.TrimSpace(o.shown.String()) != "" }

func (o *chunkWriter) progress(e gateway.Event, status string) {
	o.begin()
	o.afterTool = true
	if o.labels == nil {
		o.labels = map[string]string{}
	}
	if status == "running" {
		o.labels[e.CallID] = Label(e.Text)
	}
	o.chunk(progressEvent, map[string]any{}, nil, map[string]any{"tool": e.Tool, "label": o.labels[e.CallID], "toolCallId": e.CallID, "status": status})
}

// comment comes after the first chunk.
func (o *chunkWriter) comment(text string) {
	o.begin()
	o.sse.comment(text)
}

// last sends the end: finish_reason with usage and what else there is, a chunk of usage alone for those who asked for one, [DONE].
func (o *chunkWriter) last(finish string, usage map[string]any, extra map[string]any, ownUsage bool) {
	o.begin()
	if usage != nil && !ownUsage {
		extra["usage"] = usage
	}
	o.chunk("", map[string]any{}, finish, extra)
	if usage != nil && ownUsage {
		o.send("", o.frame(map[string]any{"choices": []any{}, "usage": usage}))
	}
	o.write([]byte("data: [DONE]\n\n"))
}

func (o *chunkWriter) chunk(name string, delta map[string]any, finish any, extra map[string]any) {
	body := map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}
	for field, value := range extra {
		body[field] = value
	}
	o.send(name, o.frame(body))
}

func (o *chunkWriter) frame(body map[string]any) map[string]any {
	body["id"], body["object"], body["created"], body["model"] = o.id, "chat.completion.chunk", o.created, o.model
	return body
}

// rest is what of a result's text was not shown yet. A turn that broke off ends with a note in brackets that no delta carried.
func rest(shown, text string) string {
	if strings.HasSuffix(shown, strings.TrimLeft(text, "\n")) {
		return ""
	}
	if note := strings.LastIndex(text, "\n\n["); note > 0 && strings.HasSuffix(shown, strings.TrimLeft(text[:note], "\n")) {
		return text[note:]
	}
	if strings.TrimSpace(shown) == "" {
		return text
	}
	return "\n\n" + text
}

// Label is a short view of a call's arguments: the one text that it has, else all of them.
func Label(arguments string) string {
	text := arguments
	var fields map[string]any
	if json.Unmarshal([]byte(arguments), &fields) == nil && len(fields) == 1 {
		for _, value := range fields {
			if only, ok := value.(string); ok {
				text = only
			}
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxLabel {
		return strings.ToValidUTF8(text[:maxLabel], "") + "…"
	}
	return text
}
