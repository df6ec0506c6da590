package worker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gatewayd/config"
)

// passed are the daemon's variables that every worker sees: where programs are, who runs, how text is shown, how
// the net is reached. No key and no token is among them; a preset or a lane's env_pass names those.
func passed() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TERM", "COLORTERM", "TZ",
		"LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "LC_COLLATE",
		"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	}
}

// fallbacks stand in for what a supervisor's bare environment lacks.
var fallbacks = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "TERM=dumb"}

// reserved are ours: a lane that set them could make a worker act for another card, and a daemon that was itself started by
// a worker must not hand its own on.
func reserved(key string) bool {
	return strings.HasPrefix(key, "GATEWAYD_KANBAN_") || strings.HasPrefix(key, "HERMES_KANBAN_") || key == "GATEWAYD_KEEPER" || key == "GATEWAYD_TASK_FILE" ||
		key == "GATEWAYD_SESSION_ID"
}

// literalEnv checks a lane's own variables and gives them in a stable order.
func literalEnv(vars map[string]string) ([]string, error) {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(vars[key], 0) {
			return nil, fmt.Errorf("env: %q is no variable", key)
		}
		if reserved(key) {
			return nil, fmt.Errorf("env: %s is set by gatewayd for each run and cannot be set by a lane", key)
		}
		words = append(words, key+"="+vars[key])
	}
	return words, nil
}

// environment builds a worker's whole environment: what is allowed, then the lane's own, then the run's, later
// words winning, each key once.
func environment(daemon config.Environ, lane Lane, run []string) []string {
	pass := slices.DeleteFunc(slices.Concat(passed(), lane.Pass), reserved)
	words := slices.Concat(fallbacks, daemon.Allow(pass...), lane.Env, run)
	at := map[string]int{}
	var env []string
	for _, w := range words {
		key, _, _ := strings.Cut(w, "=")
		if i, seen := at[key]; seen {
			env[i] = w
			continue
		}
		at[key] = len(env)
		env = append(env, w)
	}
	return env
}

// identity says which run this is. The claim's lock and the run's id are the fence: a worker of an older run is refused
// everything.
func identity(j Job) []string {
	return []string{
		"GATEWAYD_HOME=" + j.Home,
		"GATEWAYD_KANBAN_HOME=" + j.Root,
		"GATEWAYD_KANBAN_TASK=" + j.Card.ID,
		fmt.Sprintf("GATEWAYD_KANBAN_RUN_ID=%d", j.Run),
		"GATEWAYD_KANBAN_BOARD=" + j.Board,
		"GATEWAYD_KANBAN_DB=" + j.DB,
		"GATEWAYD_KANBAN_WORKSPACE=" + j.Workspace,
		"GATEWAYD_KANBAN_CLAIM_LOCK=" + j.Lock,
	}
}

// runEnv is what any worker is told of its run.
func runEnv(j Job, l layout) []string {
	env := append(identity(j), "GATEWAYD_TASK_FILE="+l.prompt, "GATEWAYD_EXE="+j.Exe)
	if j.Token != "" {
		env = append(env, "GATEWAYD_KANBAN_TOKEN="+j.Token, "GATEWAYD_KANBAN_MCP_URL="+j.MCPURL)
	}
	env = append(env, presetEnv(j, l)...)
	if j.Lane.Preset == "hermes" {
		env = append(env, hermesEnv(j)...)
	}
	return env
}

// hermesEnv is the same for a Hermes worker, in its own words.
func hermesEnv(j Job) []string {
	env := []string{
		"HERMES_PROFILE=" + j.Lane.Name,
		"HERMES_KANBAN_HOME=" + j.Root,
		"HERMES_KANBAN_TASK=" + j.Card.ID,
		fmt.Sprintf("HERMES_KANBAN_RUN_ID=%d", j.Run),
		"HERMES_KANBAN_BOARD=" + j.Board,
		"HERMES_KANBAN_DB=" + j.DB,
		"HERMES_KANBAN_WORKSPACE=" + j.Workspace,
		"HERMES_KANBAN_WORKSPACES_ROOT=" + j.WorkspacesRoot,
		"HERMES_KANBAN_CLAIM_LOCK=" + j.Lock,
		"HERMES_SESSION_SOURCE=kanban",
		"TERMINAL_CWD=" + j.Workspace,
	}
	for _, v := range [][2]string{{"HERMES_TENANT", j.Card.Tenant}, {"HERMES_KANBAN_BRANCH", j.Card.BranchName}} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	if j.Card.GoalMode {
		env = append(env, "HERMES_KANBAN_GOAL_MODE=1")
	}
	if j.Card.GoalMode && j.Card.GoalMaxTurns > 0 {
		env = append(env, fmt.Sprintf("HERMES_KANBAN_GOAL_MAX_TURNS=%d", j.Card.GoalMaxTurns))
	}
	return env
}
