package api

import (
	"net/http"

	"gatewayd/gateway"
	"gatewayd/gateway/slash"
)

// stop answers POST /api/sessions/{session}/stop: the running turn ends with its rows written, and so does what it left in the
// background. Where nothing runs it says so.
func (s *server) stop(r *http.Request) (answer, error) {
	session, err := sessionParam(r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.optionalBody(r)
	if err != nil {
		return answer{}, err
	}
	var source string
	if err := o.read(sourceInto(&source)); err != nil {
		return answer{}, err
	}
	if s.Commands == nil {
		return ok(map[string]any{"session": session, "stopped": s.Chat.Interrupt(session, gateway.Stop)})
	}
	reply, err := s.Commands.RunLine(r.Context(), slash.Context{Session: session, Source: source}, "/stop")
	if err != nil {
		return answer{}, err
	}
	body := map[string]any{"session": session, "text": reply.Text}
	if data, isMap := reply.Data.(map[string]any); isMap {
		for name, value := range data {
			body[name] = value
		}
	}
	return ok(body)
}
