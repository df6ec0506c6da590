// Package api is the HTTP face of gatewayd: the OpenAI-compatible chat, the sessions, the boards, health and metrics.
//
// It owns what a request must be before anything hears of it: a Host that is ours, an Origin that may call, the key, a body of bounded
// size and of the right types. It promises that every refusal has OpenAI's error envelope and a status from one table; that an
// answer says only what is stored; that a client's leaving ends its turn; and that a stream is flushed event by event, with a comment when
// there is nothing to say, for as long as the turn takes.
//
// It holds no rule of a conversation or of a board: those are in gateway and kanban, of which it asks small interfaces. The http.Server
// around the handler must have no WriteTimeout, because an answer may take half an hour.
package api
