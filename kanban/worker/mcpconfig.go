package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"gatewayd/config"
)

// serverName is what programs call our MCP server; their names for its tools are made of it.
const serverName = "gatewayd"

// mcpEnv are the variables by which `gatewayd mcp` is this run's. Programs start their servers with an environment of
// their own, so they stand in the configuration. There is no secret among them: whoever reads them can read the board's
// file as well.
func mcpEnv(j Job) map[string]string {
	env := map[string]string{}
	for _, word := range identity(j) {
		key, value, _ := strings.Cut(word, "=")
		env[key] = value
	}
	return env
}

// mcpConfig is the configuration of our MCP server in the words of the lane's program. One that knows none gets the form that
// most programs read.
func (j Job) mcpConfig() ([]byte, error) {
	env, words := mcpEnv(j), []string{"mcp", "--home", j.Home}
	var file any
	switch j.Lane.Preset {
	case "gemini":
		file = map[string]any{"mcpServers": map[string]any{serverName: map[string]any{"command": j.Exe, "args": words, "env": env, "trust": true}}}
	case "opencode":
		file = map[string]any{"mcp": map[string]any{serverName: map[string]any{
			"type": "local", "command": append([]string{j.Exe}, words...), "environment": env, "enabled": true,
		}}}
	default:
		file = map[string]any{"mcpServers": map[string]any{serverName: map[string]any{"type": "stdio", "command": j.Exe, "args": words, "env": env}}}
	}
	return json.Marshal(file)
}

func (j Job) writeMCPConfig(path string) error {
	text, err := j.mcpConfig()
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the MCP configuration for the worker: %w", err)
	}
	return nil
}

// presetEnv are the variables by which the lane's program finds our MCP server, where it takes no flag for it. Gemini merges the
// servers of its system defaults, the weakest of its files, with the user's own; opencode merges the inline configuration
// over all its files, so a person's OPENCODE_CONFIG stays in force. A lane that sets the variable itself keeps its own.
func presetEnv(j Job, l layout) []string {
	name, value := "", ""
	switch j.Lane.Preset {
	case "gemini":
		name, value = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH", l.mcp
	case "opencode":
		text, err := j.mcpConfig()
		if err != nil {
			return nil // writeFiles has said so
		}
		name, value = "OPENCODE_CONFIG_CONTENT", string(text)
	}
	if _, own := config.Environ(j.Lane.Env).Lookup(name); own || name == "" {
		return nil
	}
	return []string{name + "=" + value}
}

// codexFlags name our server on codex's command line, since it reads no file of servers. Values are TOML; a JSON string is
// one of its strings.
func codexFlags(j Job) []string {
	quoted := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings
		}
		return string(text)
	}
	var names []string
	for _, word := range identity(j) {
		name, _, _ := strings.Cut(word, "=")
		names = append(names, name)
	}
	var flags []string
	for _, setting := range [][2]string{
		{"command", quoted(j.Exe)},
		{"args", quoted([]string{"mcp", "--home", j.Home})},
		{"env_vars", quoted(names)},
		{"default_tools_approval_mode", `"approve"`}, // nobody is there to be asked; without it each call is cancelled
	} {
		flags = append(flags, "-c", "mcp_servers."+serverName+"."+setting[0]+"="+setting[1])
	}
	return flags
}
