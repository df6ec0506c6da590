// Package mcp is the board as a server of the Model Context Protocol, for workers and for any other agent: over the standard
// streams of a process (`gatewayd mcp`) and over HTTP (/mcp).
//
// It owns the transports and their bounds; what the tools do is in kanban/worker/tools. Over HTTP no session is kept: each
// request carries its own proof of who asks, so a worker's client goes on after a restart of the daemon, there is nothing
// to bound but the calls under way, and nothing to close when the daemon stops. Over the standard streams the one who
// started the process is the one who asks, for as long as it lives.
package mcp
