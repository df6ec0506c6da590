package api

import "net/http"

// capabilities answers GET /v1/capabilities: what a client may count on, so that it need not try.
func (s *server) capabilities(*http.Request) (answer, error) {
	return ok(map[string]any{
		"object": "capabilities", "name": modelName, "version": s.Version, "models": []string{modelName},
		"auth": map[string]any{"type": "bearer", "header": "Authorization", "scopes": []string{"read", "chat", "boards", "admin"}},
		"features": map[string]bool{
			"chat_completions": true, "streaming": true, "responses": s.Responses != nil, "previous_response_id": s.Responses != nil, "conversations": s.Responses != nil,
			"background": s.Runs != nil, "runs": s.Runs != nil, "run_events_resumable": s.Runs != nil, "steer": s.Runs != nil, "approvals": s.Approvals != nil,
			"idempotency_key": true, "receipts": true, "sessions": true, "session_fork": true, "search": true, "boards": s.Boards != nil, "mcp": s.MCP != nil,
			"client_tools": false, "structured_output": false, "reasoning_stream": s.ShowReasoning,
		},
		"limits": map[string]any{"body_bytes": s.MaxBody, "concurrent_turns": s.MaxTurns, "input_items": maxParts},
		"headers": map[string]string{
			"session": headerSession, "session_key": headerKey, "turn": headerTurn, "last_row": headerRow, "receipt": headerReceipt, "response": headerResponse,
			"idempotency": headerOnce, "replayed": headerReplayed,
		},
		"endpoints": map[string]string{
			"models": "/v1/models", "chat_completions": "/v1/chat/completions", "responses": "/v1/responses", "runs": "/v1/runs", "sessions": "/api/sessions",
			"boards": "/api/boards", "approvals": "/api/approvals", "search": "/api/search", "health": "/health", "description": "/openapi.json", "mcp": "/mcp",
		},
	})
}
