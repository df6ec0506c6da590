package worker

// Ending says whose act ends a card.
type Ending string

const (
	// ByExit: exit code 0 completes the card, in the worker's name.
	ByExit Ending = "exit"
	// ByWorker: the worker ends its card itself before it exits; exit 0 without it is a protocol violation.
	ByWorker Ending = "worker"
)

// preset is what gatewayd knows about one kind of worker.
type preset struct {
	argv   []string
	ending Ending
	pass   []string // variables of the daemon that this program needs to find its own settings and keys
	model  bool     // runs our own turn loop, so it needs a model that can work
}

// briefing is the one sentence that agent programs get as an argument. The card's own words are in the file.
const briefing = "You work on one kanban card without a person beside you. Read the file {prompt_file} first: it holds the card and says how to end it."

// presets are argv templates for agent programs. Each may be replaced by a lane's own argv, which keeps the
// rest of the preset. Their permissions are the least with which a worker can edit its workspace and end its
// card; whoever wants more says so in the lane's argv.
func presets() map[string]preset {
	return map[string]preset{
		"agent": {
			argv:   []string{"{exe}", "worker", "--home", "{home}"},
			ending: ByWorker, model: true,
			pass: []string{"GATEWAYD_MODEL_BASE_URL", "GATEWAYD_MODEL_NAME", "GATEWAYD_MODEL_API_KEY", "GATEWAYD_LOG_LEVEL"},
		},
		"command": {ending: ByExit},
		"claude": {
			argv: []string{
				"claude", "-p", "--permission-mode=acceptEdits", "--mcp-config={mcp_config}", "--strict-mcp-config",
				"--allowedTools=mcp__gatewayd,Bash({exe} kanban:*)", "--add-dir={run_dir}", "--", briefing,
			},
			ending: ByWorker,
			pass:   []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"},
		},
		"codex": {
			// The sandbox must let the worker write the board's file, or it could end its card by MCP alone. Our server is
			// named by flags that codexFlags adds.
			argv: []string{
				"codex", "exec", "--skip-git-repo-check", "--sandbox=workspace-write", "--add-dir={board_dir}", "--", briefing,
			},
			ending: ByWorker,
			pass:   []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY", "CODEX_HOME"},
		},
		"gemini": {
			argv: []string{
				"gemini", "--approval-mode=auto_edit", "--allowed-mcp-server-names=gatewayd", "--allowed-tools=run_shell_command({exe})",
				"--include-directories={run_dir}", "--prompt=" + briefing,
			},
			ending: ByWorker,
			pass: []string{
				"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
				"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_GENAI_USE_VERTEXAI", "GEMINI_CLI_TRUST_WORKSPACE",
			},
		},
		"opencode": {
			argv:   []string{"opencode", "run", "--", briefing}, // learns of our server from OPENCODE_CONFIG_CONTENT
			ending: ByWorker,
			pass:   []string{"OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_PERMISSION", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"},
		},
		"hermes": {
			argv:   []string{"hermes", "-p", "{assignee}", "--cli", "--accept-hooks", "chat", "-q", "work kanban task {task}"},
			ending: ByWorker,
			pass:   []string{"HERMES_HOME", "HERMES_BIN"},
		},
	}
}
