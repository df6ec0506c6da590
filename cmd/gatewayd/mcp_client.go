package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"gatewayd/config"
	"gatewayd/gateway"
	"gatewayd/gateway/api"
	"gatewayd/gateway/tool"
)

// mcpClient is the client of the MCP servers that are configured.
func mcpClient(loaded config.Loaded, starter tool.PipedStarter, log *slog.Logger) *tool.MCP {
	servers := map[string]tool.MCPServer{}
	for name, s := range loaded.MCPServers {
		servers[name] = serverOf(loaded, s)
	}
	return tool.NewMCP(tool.MCPOptions{Servers: servers, Starter: starter, Version: version, Log: log})
}

// serverOf gives a server its environment, which is a short list and what the configuration adds, and its headers with their secrets.
func serverOf(loaded config.Loaded, s config.MCPServer) tool.MCPServer {
	out := tool.MCPServer{
		URL: s.URL, Headers: map[string]string{}, Dir: loaded.Home, Timeout: s.Timeout, ConnectTimeout: s.ConnectTimeout,
		Include: s.Include, Exclude: s.Exclude, Trust: s.Trust,
		Env: loaded.Environ.Allow("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR"),
	}
	if s.Command != "" {
		out.Argv = append([]string{s.Command}, s.Args...)
	}
	for name, value := range s.Filled.Env {
		out.Env = append(out.Env, name+"="+value.Reveal())
		if config.LooksSecret(name) || strings.Contains(s.Env[name], "${") {
			out.Secrets = append(out.Secrets, value.Reveal())
		}
	}
	for name, value := range s.Filled.Headers {
		out.Headers[name] = value.Reveal()
		out.Secrets = append(out.Secrets, value.Reveal(), bearer(value.Reveal()))
	}
	slices.Sort(out.Env)
	return out
}

// bearer is the key in "Bearer KEY", which a server may quote without the word before it.
func bearer(header string) string {
	for i := len(header) - 1; i >= 0; i-- {
		if header[i] == ' ' {
			return header[i+1:]
		}
	}
	return header
}

// withServers gives a worker's process its own connections to the MCP servers, for as long as it works.
func withServers(ctx context.Context, options *gateway.Options, loaded config.Loaded, starter tool.PipedStarter, log *slog.Logger) (end func()) {
	if len(loaded.MCPServers) == 0 {
		return func() {}
	}
	client := mcpClient(loaded, starter, log)
	options.Tools = options.Tools.WithLate(client)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); _ = client.Run(ctx) }()
	return func() { cancel(); <-done }
}

// checkServers says how the MCP servers stand. One that is lost degrades what conversations can do, and ends none.
func (d *daemon) checkServers() (checks []api.Check) {
	for _, s := range d.servers.Status() {
		c := api.Check{Name: "mcp " + s.Name, Status: "ok", Data: s}
		if s.State != "connected" {
			c.Status, c.Reason, c.Since = "degraded", s.State, &s.Since
			if s.Reason != "" {
				c.Reason += ": " + s.Reason
			}
		}
		checks = append(checks, c)
	}
	return checks
}
