package slash

import "gatewayd/gateway"

// Context is where a command was typed. A session that does not exist yet is one of which nothing was stored.
type Context struct {
	Session string
	Key     string // the routing key by which the surface came to the session, if any
	Source  string // gateway.SourceAPI and so on
}

// Reply is a command's answer. Text is for people, Data for programs. Session is where the surface is from now on: the
// session of the Context, or another one. Say is a message that the surface has to say now, as if the person had typed it.
type Reply struct {
	Text    string       `json:"text"`
	Data    any          `json:"data,omitempty"`
	Session string       `json:"session"`
	Say     *gateway.Say `json:"-"`
}
