package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatewayd/kanban"
	"gatewayd/kanban/worker/tools"
)

// MaxMessage bounds one message of a client, in bytes: the largest attachment in base64 and some words around it.
const MaxMessage = 36 << 20

// Options say whose desk it is. Desk.Worker is set by Handler for each request; Serve takes it as it is.
type Options struct {
	Desk    tools.Desk
	Version string

	// Run tells whose request it is: the run that its token proved, or nil for the holder of the API key. Handler only.
	Run func(context.Context) *kanban.Fence
	// MaxCalls bounds the HTTP requests under way; 0 = DefaultMaxCalls.
	MaxCalls int
}

const instructionsWorker = "You are the worker of one kanban card. kanban_show tells what to do. End it with exactly one of kanban_complete, " +
	"kanban_block, kanban_schedule, kanban_request_review or kanban_request_changes, and then stop."

const instructionsPerson = "The kanban boards of this gatewayd: create cards for its workers, see how they are doing, and end what is done by hand."

// newServer makes a server that answers one speaker.
func newServer(desk tools.Desk, version string) *mcp.Server {
	instructions := instructionsPerson
	if desk.Worker != nil {
		instructions = instructionsWorker
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "gatewayd", Version: version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for _, t := range desk.Tools() {
		closed, ends := false, t.Ends
		server.AddTool(&mcp.Tool{
			Name: t.Name, Description: t.About, InputSchema: t.Schema(),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.ReadOnly, DestructiveHint: &ends, OpenWorldHint: &closed},
		}, answer(&desk))
	}
	return server
}

// answer gives a tool's own error to the model as a result: a protocol error would be kept from it.
func answer(desk *tools.Desk) mcp.ToolHandler {
	return func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		a := desk.Call(ctx, request.Params.Name, request.Params.Arguments)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text()}}, IsError: a.Err != nil}, nil
	}
}
