package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// contentOf turns an answer into text. What is no text is named; structured content is given where there is no text that says it.
func contentOf(answer *mcp.CallToolResult) string {
	var parts []string
	for _, c := range answer.Content {
		if text := partOf(c); text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 && answer.StructuredContent != nil {
		if raw, err := json.Marshal(answer.StructuredContent); err == nil {
			parts = append(parts, string(raw))
		}
	}
	if len(parts) == 0 {
		return "(no output)"
	}
	return strings.Join(parts, "\n")
}

func partOf(c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return fmt.Sprintf("[image %s, %d bytes, not shown]", c.MIMEType, len(c.Data))
	case *mcp.AudioContent:
		return fmt.Sprintf("[audio %s, %d bytes, not played]", c.MIMEType, len(c.Data))
	case *mcp.ResourceLink:
		return fmt.Sprintf("[resource %s (%s)]", c.URI, c.Name)
	case *mcp.EmbeddedResource:
		switch {
		case c.Resource == nil:
			return ""
		case c.Resource.Text != "":
			return c.Resource.Text
		}
		return fmt.Sprintf("[resource %s %s, %d bytes, not shown]", c.Resource.URI, c.Resource.MIMEType, len(c.Resource.Blob))
	}
	return ""
}

// printable is clean for a result, which may be long: control sequences are taken out and not shown.
func (s *mcpServer) printable(text string) string {
	var e escapes
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		if b, ok := e.next(text[i]); ok {
			out = append(out, b)
		}
	}
	return s.redact(string(out))
}

// wireError reports that the server itself refused the call: it is there, and it did not run it.
func wireError(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}
