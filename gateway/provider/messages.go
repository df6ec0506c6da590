package provider

import (
	"encoding/json"
	"net/http"
)

// messagesVersion is the version of the Messages API that we speak.
const messagesVersion = "2023-06-01"

// Bounds of an answer. The API wants one with each request; a model that writes less says so once and is asked for what it can.
const (
	messagesOutput  = 16384
	thinkingLeast   = 1024 // the smallest budget that the API takes
	thinkingAnswer  = 4096 // what is left for the answer beside the thinking
	cacheMarksRows  = 2    // marks on the last rows; with those on the system text and the tools these are the four that the API allows
	cacheMarksLimit = 4
)

// budgets are the tokens of thinking for each effort.
var budgets = map[string]int{"minimal": thinkingLeast, "low": 4096, "medium": 8192, "high": 16384}

// messagesAPI is Anthropic's own protocol.
type messagesAPI struct{ ttl string } // of the prompt cache: 5m, 1h, off; empty is 5m

func (messagesAPI) endpoint() string { return "messages" }

func (messagesAPI) sign(header http.Header, key string) {
	header.Set("Anthropic-Version", messagesVersion)
	if key != "" {
		header.Set("X-Api-Key", key)
	}
}

// block is one piece of a row.
type block struct {
	kind      string
	text      string // of text and tool_result
	id, name  string // of tool_use
	input     string // likewise: a JSON object
	toolUseID string
	image     *Image
	cache     *cacheMark
	raw       json.RawMessage // a block that goes back as it came
}

func (b *body) block(one block) {
	if one.raw != nil {
		b.Write(one.raw)
		return
	}
	b.WriteString(`{"type":`)
	b.text(one.kind)
	switch one.kind {
	case "text":
		b.optional("text", one.text)
	case "tool_use":
		b.optional("id", one.id)
		b.optional("name", one.name)
		b.WriteString(`,"input":` + one.input)
	case "tool_result":
		b.optional("tool_use_id", one.toolUseID)
		b.optional("content", one.text)
	case "image":
		b.source(*one.image)
	}
	if one.cache != nil {
		b.field(paramCache, one.cache)
	}
	b.WriteByte('}')
}

// source says where a picture is: here, or at a URL from which the server takes it.
func (b *body) source(image Image) {
	kind, data, ok := image.inline()
	if !ok {
		b.WriteString(`,"source":{"type":"url","url":`)
		b.text(image.URL)
		b.WriteByte('}')
		return
	}
	b.WriteString(`,"source":{"type":"base64","media_type":`)
	b.text(kind)
	b.WriteString(`,"data":"` + data + `"}`)
}

func (b *body) rows(rows []turnRow) {
	b.WriteString(`,"messages":[`)
	for i, row := range rows {
		b.comma(i)
		b.WriteString(`{"role":`)
		b.text(row.role)
		b.WriteString(`,"content":[`)
		for j, one := range row.content {
			b.comma(j)
			b.block(one)
		}
		b.WriteString(`]}`)
	}
	b.WriteByte(']')
}

type cacheMark struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// turnRow is one row of the API: user and assistant alternate, and the results of tools are the user's.
type turnRow struct {
	role    string
	content []block
}

// encode writes a request body: what never changes first.
func (w messagesAPI) encode(model string, request Request, m manner) ([]byte, error) {
	b := newBody(request)
	thinks := w.thinks(request, m)
	rows := w.rows(m.rows(request.Messages), thinks)
	mark := w.mark(m)
	markRows(rows, mark)
	b.WriteString(`{"model":`)
	b.value(model)
	w.limits(b, request, m, thinks)
	if request.System != "" {
		b.WriteString(`,"system":[`)
		b.block(block{kind: "text", text: request.System, cache: mark})
		b.WriteByte(']')
	}
	w.tools(b, m.toolsOf(request), m, mark)
	b.rows(rows)
	b.WriteString(`,"stream":true}`)
	return b.bytes()
}

// limits are what a server may refuse: how long, how warm, with how much thought.
func (messagesAPI) limits(b *body, request Request, m manner, thinks int) {
	limit := request.MaxTokens
	if limit <= 0 {
		limit = messagesOutput
	}
	if thinks > 0 {
		limit = max(limit, thinks+thinkingAnswer)
	}
	limit = m.output(limit)
	b.field(paramMax, limit)
	if thinks >= limit {
		thinks = limit / 2
	}
	switch {
	case thinks > 0 && m.not[formBudget]: // the model decides how much, by the effort
		b.field(paramThinking, map[string]any{"type": "adaptive"})
		if !m.not[paramOutput] {
			b.field(paramOutput, map[string]any{"effort": adaptive(request.Effort)})
		}
	case thinks >= thinkingLeast:
		b.field(paramThinking, map[string]any{"type": "enabled", "budget_tokens": thinks})
	case request.Temperature != nil && !m.not[paramTemp]:
		b.field(paramTemp, *request.Temperature)
	case request.TopP != nil && !m.not[paramTopP]: // newer models take one of the two
		b.field(paramTopP, *request.TopP)
	}
	if len(request.Stop) > 0 && !m.not[paramStopSeq] {
		b.field(paramStopSeq, request.Stop)
	}
}

// adaptive is the effort in the words of models that decide themselves how much to think.
func adaptive(effort string) string {
	if effort == "minimal" {
		return "low"
	}
	return effort
}

// thinks gives the budget of thinking, 0 for none. In the middle of a tool round the API wants the signed thoughts back that led to the
// calls; where they are not stored there is no thinking either.
func (messagesAPI) thinks(request Request, m manner) int {
	budget := budgets[request.Effort]
	if budget == 0 || m.not[paramThinking] {
		return 0
	}
	for i := len(request.Messages) - 1; i >= 0; i-- {
		message := plain(request.Messages[i])
		switch {
		case message.Role == "user":
			return budget
		case message.Role == "assistant" && len(message.ToolCalls) > 0:
			if len(signedBlocks(message.Thinking)) == 0 || m.not[formSigned] {
				return 0
			}
		}
	}
	return budget
}

func (w messagesAPI) mark(m manner) *cacheMark {
	switch {
	case w.ttl == "off" || m.not[paramCache]:
		return nil
	case w.ttl == "1h":
		return &cacheMark{Type: "ephemeral", TTL: "1h"}
	}
	return &cacheMark{Type: "ephemeral"}
}

// markRows puts the marks on the last blocks of the last rows. Marks that are there already go first, so doing it twice is doing it once.
func markRows(rows []turnRow, mark *cacheMark) {
	left := cacheMarksRows
	for i := len(rows) - 1; i >= 0; i-- {
		for j := range rows[i].content {
			rows[i].content[j].cache = nil
		}
		last := len(rows[i].content) - 1
		if left > 0 && rows[i].role == "user" && last >= 0 && mark != nil {
			rows[i].content[last].cache = mark
			left--
		}
	}
}

// rows turns our rows into the API's.
func (messagesAPI) rows(messages []Message, thinks int) []turnRow {
	rows := []turnRow{}
	for _, message := range messages {
		message = plain(message)
		role, blocks := "user", []block(nil)
		switch message.Role {
		case "assistant":
			role, blocks = "assistant", assistantBlocks(message, thinks > 0)
		case "tool":
			blocks = []block{{kind: "tool_result", toolUseID: message.ToolCallID, text: message.Content}}
		default: // a system row in the middle is somebody's word to the model
			blocks = append(imageBlocks(message.Images), textBlocks(message.Content)...)
		}
		if len(blocks) == 0 {
			continue
		}
		if n := len(rows); n > 0 && rows[n-1].role == role {
			rows[n-1].content = append(rows[n-1].content, blocks...)
			continue
		}
		rows = append(rows, turnRow{role, blocks})
	}
	return rows
}

func textBlocks(text string) []block {
	if text == "" {
		return nil // the API refuses empty ones
	}
	return []block{{kind: "text", text: text}}
}

func imageBlocks(images []Image) (blocks []block) {
	for i := range images {
		blocks = append(blocks, block{kind: "image", image: &images[i]})
	}
	return blocks
}

// assistantBlocks are what the model said, its signed thoughts first where it wants them back.
func assistantBlocks(message Message, thinks bool) (blocks []block) {
	if thinks && len(message.ToolCalls) > 0 {
		for _, raw := range signedBlocks(message.Thinking) {
			blocks = append(blocks, block{raw: raw})
		}
	}
	blocks = append(blocks, textBlocks(message.Content)...)
	for _, call := range message.ToolCalls {
		blocks = append(blocks, block{kind: "tool_use", id: call.ID, name: call.Name, input: replayed(call)})
	}
	return blocks
}

func (messagesAPI) tools(b *body, tools []ToolSpec, m manner, mark *cacheMark) {
	for i, tool := range tools {
		if i == 0 {
			b.WriteString(`,"tools":[`)
		}
		b.comma(i)
		b.WriteString(`{"name":`)
		b.text(tool.Name)
		b.WriteString(`,"description":`)
		b.text(tool.Description)
		b.WriteString(`,"input_schema":`)
		b.schema(tool, m)
		if i == len(tools)-1 && mark != nil {
			b.field(paramCache, mark)
		}
		b.WriteByte('}')
	}
	if len(tools) > 0 {
		b.WriteByte(']')
	}
}
