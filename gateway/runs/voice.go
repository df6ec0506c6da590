package runs

import (
	"encoding/json"
	"strings"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/tool"
	"gatewayd/sessiondb"
)

// Names of events. The last one of a run is run.completed, run.failed, run.cancelled or run.interrupted.
const (
	EventQueued    = "run.queued"
	EventStarted   = "run.started"
	EventResumed   = "run.resumed"    // it goes on in another process; what was said of the message `voided` is void
	EventStopping  = "run.stopping"   // somebody asked for its end
	EventDelta     = "message.delta"  // a piece of the message with this number
	EventMissed    = "message.missed" // pieces of the message with this number are not among the events
	EventReasoning = "reasoning.delta"
	EventToolBegan = "tool.started"
	EventToolEnded = "tool.completed"
	EventAsked     = "approval.request"
	EventAnswered  = "approval.responded"
	EventSteered   = "message.steered"
	EventNotice    = "notice"
	EventModel     = "model"
)

// maxPreview bounds what an event shows of a call's arguments and of its result; the rows have the whole.
const maxPreview = 2_000

// event makes one as it is stored; the time and the number come with the storing.
func event(run, name string, body map[string]any) sessiondb.RunEvent {
	body["event"], body["run_id"], body["timestamp"] = name, run, float64(time.Now().UnixMilli())/1000
	raw, err := json.Marshal(body)
	if err != nil {
		raw = []byte(`{}`) // texts and numbers always marshal
	}
	return sessiondb.RunEvent{Name: name, Body: raw}
}

// voice puts what a turn shows into words.
type voice struct {
	run       string
	reasoning bool
	message   int // number of the message that is being said
	spoke     bool
	began     map[string]time.Time // calls under way
	lost      bool                 // pieces of this message are missing
}

// next begins another message, if there was one.
func (v *voice) next() {
	if v.spoke {
		v.message++
	}
	v.spoke, v.lost = false, false
}

func (v *voice) resumed() sessiondb.RunEvent {
	voided := v.message
	v.message, v.spoke, v.lost = v.message+1, false, false
	return event(v.run, EventResumed, map[string]any{"voided": voided, "message": v.message})
}

func (v *voice) missed() sessiondb.RunEvent {
	v.lost = true
	return event(v.run, EventMissed, map[string]any{"message": v.message})
}

// say gives the event for what a turn shows; false where a run shows nothing of it.
func (v *voice) say(e gateway.Event) (sessiondb.RunEvent, bool) {
	name, body := v.words(e)
	if name == "" {
		return sessiondb.RunEvent{}, false
	}
	return event(v.run, name, body), true
}

func (v *voice) words(e gateway.Event) (string, map[string]any) {
	switch e.Kind {
	case gateway.EventDelta:
		if v.lost || e.Text == "" {
			return "", nil
		}
		v.spoke = true
		return EventDelta, map[string]any{"delta": e.Text, "message": v.message}
	case gateway.EventReasoning:
		if v.reasoning && e.Text != "" {
			return EventReasoning, map[string]any{"delta": e.Text}
		}
	case gateway.EventToolStarted:
		v.next()
		return EventToolBegan, v.callBegan(e)
	case gateway.EventToolFinished:
		return EventToolEnded, v.callEnded(e)
	case gateway.EventApproval:
		if e.Approval != nil {
			return asked(e)
		}
	case gateway.EventSteered:
		return EventSteered, map[string]any{"text": e.Text}
	case gateway.EventNotice:
		return EventNotice, map[string]any{"text": e.Text}
	case gateway.EventModel:
		return EventModel, map[string]any{"model": e.Text}
	}
	return "", nil
}

func (v *voice) callBegan(e gateway.Event) map[string]any {
	if v.began == nil {
		v.began = map[string]time.Time{}
	}
	v.began[e.CallID] = time.Now()
	return map[string]any{"tool": e.Tool, "call_id": e.CallID, "preview": preview(e.Text)}
}

func (v *voice) callEnded(e gateway.Event) map[string]any {
	body := map[string]any{"tool": e.Tool, "call_id": e.CallID, "preview": preview(e.Text), "error": e.Err}
	if began, known := v.began[e.CallID]; known {
		body["duration"] = float64(time.Since(began).Milliseconds()) / 1000
		delete(v.began, e.CallID)
	}
	return body
}

func asked(e gateway.Event) (string, map[string]any) {
	a := e.Approval
	if a.State != sessiondb.ApprovalPending {
		return EventAnswered, map[string]any{"approval_id": a.ID, "call_id": e.CallID, "choice": a.Decision, "by": a.DecidedBy, "approved": a.State == sessiondb.ApprovalApproved}
	}
	return EventAsked, map[string]any{
		"approval_id": a.ID, "call_id": e.CallID, "tool": a.Tool, "command": a.Effect, "description": a.Reason, "choices": tool.Choices,
		"allow_permanent": true, "expires_at": a.ExpiresAt,
	}
}

func preview(text string) string {
	if len(text) <= maxPreview {
		return text
	}
	return strings.ToValidUTF8(text[:maxPreview], "") + "…"
}
