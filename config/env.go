package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"gatewayd/internal/mutation"
)

// variable is one environment variable and the setting that it overrides. The tunables of boards are also
// known by the names of the Python original, so that one environment serves both programs.
type variable struct {
	name   string
	key    string
	unit   unit
	hermes bool
}

var variables = []variable{
	{name: "GATEWAYD_ADDR", key: "api.addr"},
	{name: "GATEWAYD_INSECURE_BIND", key: "api.insecure_bind", unit: asSwitch},
	{name: "GATEWAYD_MODEL_BASE_URL", key: "model.base_url"},
	{name: "GATEWAYD_MODEL_NAME", key: "model.name"},
	{name: "GATEWAYD_LOG_LEVEL", key: "log.level"},
	{name: "GATEWAYD_KANBAN_CLAIM_TTL_SECONDS", key: "kanban.claim_ttl", unit: inSeconds, hermes: true},
	{name: "GATEWAYD_KANBAN_BUSY_TIMEOUT_MS", key: "kanban.busy_patience", unit: inMilliseconds, hermes: true},
	{name: "GATEWAYD_KANBAN_RATE_LIMIT_COOLDOWN_SECONDS", key: "kanban.rate_limit_cooldown", unit: inSeconds, hermes: true},
	{name: "GATEWAYD_KANBAN_DISPATCH_IN_GATEWAY", key: "kanban.dispatch", unit: asSwitch, hermes: true},
	{name: "GATEWAYD_KANBAN_NOTIFY_IN_GATEWAY", key: "kanban.notify.enabled", unit: asSwitch, hermes: true},
	{name: "GATEWAYD_KANBAN_CRASH_GRACE_SECONDS", key: graceKey, unit: inSeconds, hermes: true},
}

const (
	graceKey    = "kanban.crash_grace"
	modelKeyEnv = "GATEWAYD_MODEL_API_KEY"
	// credentialsEnv is where systemd puts what a unit names with LoadCredential.
	credentialsEnv = "CREDENTIALS_DIRECTORY"
	homeEnv        = "GATEWAYD_HOME"
	rootEnv        = "GATEWAYD_KANBAN_HOME"
)

func (l *loader) environment() {
	l.variables(l.Environ, func(name string) Origin { return Origin{Source: FromEnv, Place: name} })
	l.strangers()
}

// variables takes the settings that are in some variables.
func (l *loader) variables(environ Environ, from func(name string) Origin) {
	for _, v := range variables {
		name, text, ok := environ.variable(v)
		switch {
		case !ok, text == "" && (v.unit == plainUnit || !v.hermes):
			// An empty text is how compose files and shells say "not set".
		case v.key == graceKey:
			l.crashGrace(text, from(name))
		default:
			l.assign(v.key, text, from(name), v.unit)
		}
	}
}

func (e Environ) variable(v variable) (name, text string, ok bool) {
	if text, ok = e.Lookup(v.name); ok || !v.hermes {
		return v.name, text, ok
	}
	name = hermesName(v.name)
	text, ok = e.Lookup(name)
	return name, text, ok
}

func hermesName(name string) string { return "HERMES_" + strings.TrimPrefix(name, "GATEWAYD_") }

// crashGrace is the one place where a bad value is not refused: the original treats it as the default, and a
// dispatcher that does not start because of it would be worse than one that waits 30 seconds.
func (l *loader) crashGrace(text string, from Origin) {
	seconds, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || seconds < 0 || seconds > int(maxDuration.Seconds()) {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%s is not a whole number of seconds, zero or more: 30s is used", from.Place))
		text = "30"
	}
	l.assign(graceKey, text, from, inSeconds)
}

// strangers refuses a GATEWAYD_ variable that means nothing: it is a misspelling that would silently do nothing.
func (l *loader) strangers() {
	if l.insideWorker() {
		return // a dispatcher of another version may tell its workers more than we know
	}
	known := knownVariables()
	for _, word := range l.Environ {
		name, _, _ := strings.Cut(word, "=")
		if !strings.HasPrefix(name, "GATEWAYD_") || known[name] || tolerated(name) || name == mutation.Variable {
			continue
		}
		remedy := "unset it; `gatewayd config show` lists all settings"
		if guess := Nearest(name, sortedKeys(reflect.ValueOf(known))); guess != "" {
			remedy = "did you mean " + guess + "?"
		}
		l.refuse("variable "+name, "is not a setting", remedy, nil)
	}
}

func knownVariables() map[string]bool {
	known := map[string]bool{homeEnv: true, rootEnv: true, modelKeyEnv: true, sessionEnv: true}
	for _, v := range variables {
		known[v.name] = true
	}
	return known
}

// tolerated are names that other programs put there: Kubernetes describes a service called gatewayd to every
// pod beside it, a notification's command is told of its event, and the tests say where their files are.
func tolerated(name string) bool {
	for _, prefix := range []string{"GATEWAYD_SERVICE_", "GATEWAYD_PORT", "GATEWAYD_FIXTURES", "GATEWAYD_TEST_", "GATEWAYD_EVENT_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
