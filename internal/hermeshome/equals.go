package hermeshome

// equals are settings that mean the same here, by their names there. Numbers of seconds become durations where ours are.
var equals = map[string]string{
	"model.default":                         "model.name",
	"model.model":                           "model.name",
	"model.base_url":                        "model.base_url",
	"model.context_length":                  "model.context_length",
	"agent.max_turns":                       "agent.max_iterations",
	"agent.api_max_retries":                 "model.max_retries",
	"agent.reasoning_effort":                "model.reasoning_effort",
	"agent.turn_liveness.timeout_s":         "agent.turn_stall_timeout",
	"agent.system_prompt":                   "agent.system_prompt",
	"terminal.cwd":                          "tools.workdir",
	"terminal.timeout":                      "tools.terminal_timeout",
	"tool_output.max_bytes":                 "tools.output_max_bytes",
	"approvals.timeout":                     "tools.approval_timeout",
	"command_allowlist":                     "tools.allow",
	"prompt_caching.cache_ttl":              "model.cache_ttl",
	"database.journal_mode":                 "database.journal_mode",
	"auxiliary.compression.model":           "auxiliary.compression.name",
	"auxiliary.compression.base_url":        "auxiliary.compression.base_url",
	"auxiliary.compression.context_length":  "auxiliary.compression.context_length",
	"auxiliary.compression.timeout":         "auxiliary.compression.timeout",
	"kanban.dispatch_in_gateway":            "kanban.dispatch",
	"kanban.notify_in_gateway":              "kanban.notify.enabled",
	"kanban.review_dispatch":                "kanban.review_dispatch",
	"kanban.dispatch_interval_seconds":      "kanban.interval",
	"kanban.failure_limit":                  "kanban.failure_limit",
	"kanban.max_in_progress":                "kanban.max_in_progress",
	"kanban.max_in_progress_per_profile":    "kanban.max_in_progress_per_lane",
	"kanban.dispatch_stale_timeout_seconds": "kanban.stale_timeout",
	"kanban.worker_log_rotate_bytes":        "kanban.log_max_bytes",
	"kanban.default_assignee":               "kanban.default_assignee",
	"kanban.auto_subscribe_on_create":       "kanban.auto_subscribe_on_create",
	"kanban.diagnostics.failure_threshold":  "kanban.diagnostics.failure_threshold",
	"kanban.diagnostics.crash_threshold":    "kanban.diagnostics.crash_threshold",

	"kanban.diagnostics.block_cycle_threshold":      "kanban.diagnostics.block_cycle_threshold",
	"kanban.diagnostics.stranded_threshold_seconds": "kanban.diagnostics.stranded_threshold",
}

// unequal says of settings why they are not brought, by the beginnings of their names; the longest counts.
var unequal = map[string]string{
	"agent.restart_drain_timeout":      "how long a stop waits is agent.shutdown_grace here, and the unit's TimeoutStopSec must be longer: set both",
	"gateway.platforms":                "gatewayd has no chat platforms",
	"gateway.api_server":               "the API has keys of its own (`gatewayd keys`) and an address of its own (api.addr)",
	"gateway.systemd_watchdog_seconds": "the unit that `gatewayd install` writes has a watchdog",
	"kanban.auto_decompose":            "nothing is decomposed by itself here: `gatewayd kanban decompose`",
	"kanban.orchestrator_profile":      "nothing is decomposed by itself here: `gatewayd kanban decompose`",
	"display":                          "each front end shows what it shows",
	"updates":                          "gatewayd asks no server for updates",
	"terminal":                         "commands run on this machine, by the rules of tools.terminal",
}

// providers are addresses that Hermes knows by a name.
var providers = map[string]struct{ url, key string }{
	"openrouter": {"https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"},
	"anthropic":  {"https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"},
	"openai":     {"https://api.openai.com/v1", "OPENAI_API_KEY"},
}

// wires are the protocols of a provider's api_mode.
var wires = map[string]string{"chat_completions": "openai", "anthropic_messages": "anthropic"}
