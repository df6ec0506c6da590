package api

import (
	"context"
	"encoding/json"
	"strings"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/runs"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// responseResult is what the end of a response tells beside its output.
type responseResult struct {
	Usage      map[string]any `json:"usage,omitempty"`
	Error      map[string]any `json:"error,omitempty"`      // code and message
	Incomplete string         `json:"incomplete,omitempty"` // why there is no more
	Gatewayd   map[string]any `json:"gatewayd,omitempty"`
}

// responseUsage is what a turn used, in the words of this API.
func responseUsage(u provider.Usage) map[string]any {
	return map[string]any{
		"input_tokens": u.Prompt, "output_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
		"input_tokens_details":  map[string]any{"cached_tokens": u.Cached},
		"output_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
	}
}

// ending is the table from a turn's result to the end of its response.
func (at *seat) ending(result gateway.Result, out *items) (responseResult, ending) {
	if rest := rest(out.all.String(), result.Text); rest != "" {
		out.say(rest)
	}
	verdict := judge(result, out.visible())
	end := responseResult{Usage: responseUsage(result.Usage), Gatewayd: about(result, verdict)}
	at.Turn, at.Row, at.Status = result.TurnID, result.LastRow, sessiondb.ResponseCompleted
	switch {
	case result.Completed && verdict.finish == "length":
		at.Status, end.Incomplete = sessiondb.ResponseIncomplete, "max_output_tokens"
	case result.Completed && verdict.finish == "content_filter":
		at.Status, end.Incomplete = sessiondb.ResponseIncomplete, "content_filter"
	case result.Interrupted:
		at.Status, end.Incomplete = sessiondb.ResponseIncomplete, result.ExitReason
	case !result.Completed:
		at.Status, end.Error = sessiondb.ResponseFailed, map[string]any{"code": "server_error", "message": result.Text}
	}
	itemStatus := "completed"
	if at.Status != sessiondb.ResponseCompleted {
		itemStatus = "incomplete"
	}
	out.close(itemStatus)
	return end, verdict
}

// keep stores the end of a response that is stored.
func (s *server) keep(ctx context.Context, at *seat, out *items, end responseResult) {
	at.Output, at.Result = marshalled(listOf(out.list)), marshalled(end)
	if !at.stored {
		return
	}
	if err := s.Responses.EndResponse(context.WithoutCancel(ctx), at.Response); err != nil {
		s.Log.Warn("the end of a response is not stored; its rows tell it", "session", at.Session, "turn", at.Turn, "error", err)
	}
}

func marshalled(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil // texts and numbers always marshal
	}
	return raw
}

// responseBody is a response as clients read it.
func responseBody(r sessiondb.Response) map[string]any {
	var asked repeated
	var end responseResult
	var output []map[string]any
	_ = json.Unmarshal(r.Request, &asked) // they are ours
	_ = json.Unmarshal(r.Result, &end)
	_ = json.Unmarshal(r.Output, &output)
	if asked.Metadata == nil {
		asked.Metadata = map[string]string{}
	}
	body := map[string]any{
		"id": r.ID, "object": "response", "created_at": r.CreatedAt.Unix(), "status": r.Status, "background": r.Background, "error": nil, "incomplete_details": nil,
		"instructions": orNull(asked.Instructions), "max_output_tokens": orNone(asked.Wishes.MaxTokens), "model": asked.Model, "output": listOf(output), "parallel_tool_calls": true,
		"previous_response_id": orNull(r.Previous), "conversation": nil, "reasoning": map[string]any{"effort": nil, "summary": nil}, "store": asked.Store,
		"temperature": asked.Wishes.Temperature, "text": map[string]any{"format": map[string]any{"type": "text"}}, "tool_choice": "auto", "tools": []any{}, "top_p": asked.Wishes.TopP,
		"truncation": asked.Truncation, "usage": nil, "user": nil, "metadata": asked.Metadata, "completed_at": nil,
	}
	if r.Conversation != "" {
		body["conversation"] = map[string]any{"id": r.Conversation}
	}
	if end.Usage != nil {
		body["usage"] = end.Usage
	}
	if end.Error != nil {
		body["error"] = end.Error
	}
	if end.Incomplete != "" {
		body["incomplete_details"] = map[string]any{"reason": end.Incomplete}
	}
	if r.Status == sessiondb.ResponseCompleted && r.EndedAt != nil {
		body["completed_at"] = r.EndedAt.Unix()
	}
	ours := map[string]any{"session": r.Session}
	for name, value := range end.Gatewayd {
		ours[name] = value
	}
	body["gatewayd"] = ours
	return body
}

func orNone(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// settled gives a response as it is now. The process that made one may be gone, and a run may have made it: then the rows of its turn tell
// how it ended, and that is stored.
func (s *server) settled(ctx context.Context, r sessiondb.Response) (sessiondb.Response, error) {
	if r.EndedAt != nil || s.answering.has(r.ID) {
		return r, nil
	}
	run, known, err := s.runOf(ctx, r)
	if err != nil {
		return r, err
	}
	if known && run.EndedAt == nil {
		if r.Status = sessiondb.ResponseInProgress; run.Status == sessiondb.RunQueued {
			r.Status = sessiondb.ResponseQueued
		}
		return r, nil
	}
	rows, err := s.Responses.TurnOf(ctx, r.UID)
	if err != nil {
		return r, err
	}
	at := seat{Response: r, stored: true}
	out := &items{id: strings.TrimPrefix(r.ID, "resp_")}
	out.rows(rows)
	s.keep(ctx, &at, out, at.told(rows, run))
	return s.Responses.Response(ctx, r.Owner, r.ID)
}

// told is the end of a response from the rows of its turn, and from its run where there is one.
func (at *seat) told(rows []sessiondb.Message, run sessiondb.Run) responseResult {
	status, reason := runs.EndOf(rows)
	var end responseResult
	if run.ID != "" {
		status, reason = run.Status, run.Error
		var result struct {
			Usage   map[string]any `json:"usage"`
			Receipt string         `json:"receipt"`
		}
		_ = json.Unmarshal(run.Result, &result) // it is ours
		end.Usage, end.Gatewayd = result.Usage, map[string]any{"run": run.ID}
		if result.Receipt != "" {
			end.Gatewayd["receipt"] = result.Receipt
		}
	}
	finish := ""
	for _, m := range rows {
		at.Turn, at.Row, finish = m.TurnID, m.ID, m.FinishReason
	}
	switch {
	case status == sessiondb.RunCompleted && finish == "length":
		at.Status, end.Incomplete = sessiondb.ResponseIncomplete, "max_output_tokens"
	case status == sessiondb.RunCompleted:
		at.Status = sessiondb.ResponseCompleted
	case status == sessiondb.RunCancelled:
		at.Status = sessiondb.ResponseCancelled
	case status == sessiondb.RunFailed:
		at.Status, end.Error = sessiondb.ResponseFailed, map[string]any{"code": "server_error", "message": reason}
	default:
		at.Status, end.Incomplete = sessiondb.ResponseIncomplete, "interrupted"
	}
	return end
}

// numbered gives the events of a response their numbers, from 0 and without gaps.
type numbered struct{ next int64 }

func (n *numbered) put(kind string, body map[string]any) map[string]any {
	body["type"], body["sequence_number"] = kind, n.next
	if !mutation.On("sequence-numbers-stand-still") {
		n.next++
	}
	return body
}
