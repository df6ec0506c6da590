package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"strings"

	"gatewayd/kanban"
)

func files() []Tool {
	return []Tool{
		{
			Name: "kanban_attach", run: attach,
			About: "Attach a file to your card, for the people who read it. At most 25 MiB.",
			params: []param{
				cardParam,
				{name: "filename", kind: text, must: true, about: "what to call it"},
				{name: "content_base64", kind: text, about: "the file in base64"},
				{name: "content_type", kind: text, about: "its media type"},
			},
		},
		{
			Name: "kanban_attach_url", run: attachURL,
			About:  "Fetch a file from a public address and attach it to your card.",
			params: []param{cardParam, {name: "url", kind: text, must: true, about: "http or https address of one file"}},
		},
		{
			Name: "kanban_attachments", ReadOnly: true, run: attachments, params: []param{cardParam},
			About: "List the files of a card, with the paths where they can be read.",
		},
	}
}

func attach(ctx context.Context, c *call) (map[string]any, error) {
	if _, given := c.values["content_base64"]; !given { // an empty file is a file; one that was forgotten is not
		return nil, refuse("parameter content_base64 of kanban_attach", "is missing", "send the file's bytes in base64; an empty string is an empty file")
	}
	content := strings.Join(strings.Fields(c.text("content_base64")), "") // models break long lines
	decoded, err := base64.StdEncoding.DecodeString(content)
	if err != nil {
		return nil, refuse("parameter content_base64 of kanban_attach", "is no base64", "encode the file's bytes with the standard alphabet, and send it again")
	}
	return c.store(ctx, c.text("filename"), c.text("content_type"), bytes.NewReader(decoded))
}

func attachURL(ctx context.Context, c *call) (map[string]any, error) {
	file, err := c.Fetch.Get(ctx, c.text("url"))
	if err != nil {
		return nil, err
	}
	defer file.Body.Close()
	return c.store(ctx, file.Filename, file.ContentType, file.Body)
}

func (c *call) store(ctx context.Context, name, kind string, content io.Reader) (map[string]any, error) {
	made, err := c.board.Attach(ctx, c.task, kanban.NewAttachment{Filename: name, ContentType: kind, By: c.actor.Name, Run: c.actor.Fence(c.task)}, content)
	if err != nil {
		return nil, err
	}
	return map[string]any{"task_id": c.task, "attachment": made}, nil
}

func attachments(ctx context.Context, c *call) (map[string]any, error) {
	list, err := c.board.Attachments(ctx, c.task)
	if err != nil {
		return nil, err
	}
	return map[string]any{"task_id": c.task, "attachments": append([]kanban.Attachment{}, list...), "count": len(list)}, nil
}
