package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

func TestVariablesAreRefusedAloudWhenTheyAreGarbage(t *testing.T) {
	home := homeWith(t, "")
	for variable, want := range map[string]string{
		"GATEWAYD_ADDR=box":                               "GATEWAYD_ADDR: api.addr must be HOST:PORT",
		"GATEWAYD_MODEL_BASE_URL=box":                     "GATEWAYD_MODEL_BASE_URL: model.base_url must be a URL",
		"GATEWAYD_LOG_LEVEL=loud":                         "GATEWAYD_LOG_LEVEL: log.level must be one of",
		"GATEWAYD_KANBAN_CLAIM_TTL_SECONDS=soon":          "GATEWAYD_KANBAN_CLAIM_TTL_SECONDS (kanban.claim_ttl) must be a whole number of seconds",
		"GATEWAYD_KANBAN_CLAIM_TTL_SECONDS=":              "must be a whole number of seconds",
		"GATEWAYD_KANBAN_CLAIM_TTL_SECONDS=-1":            "must be a whole number of seconds",
		"GATEWAYD_KANBAN_CLAIM_TTL_SECONDS=0":             "kanban.claim_ttl must be at least 1s",
		"GATEWAYD_KANBAN_CLAIM_TTL_SECONDS=9223372036854": "must be a whole number of seconds",
		"HERMES_KANBAN_CLAIM_TTL_SECONDS=1.5":             "HERMES_KANBAN_CLAIM_TTL_SECONDS (kanban.claim_ttl)",
		"GATEWAYD_KANBAN_BUSY_TIMEOUT_MS=60s":             "must be a whole number of milliseconds",
		"GATEWAYD_KANBAN_RATE_LIMIT_COOLDOWN_SECONDS=abc": "kanban.rate_limit_cooldown",
		"GATEWAYD_KANBAN_DISPATCH_IN_GATEWAY=maybe":       "must be 1, true, yes, on, 0, false, no or off",
		"GATEWAYD_KANBAN_DISPATCH_IN_GATEWAY=":            "must be 1, true",
		"GATEWAYD_ADRR=127.0.0.1:1":                       "variable GATEWAYD_ADRR is not a setting; did you mean GATEWAYD_ADDR?",
		"GATEWAYD_KANBAN_CRASH_GRACE=5":                   "variable GATEWAYD_KANBAN_CRASH_GRACE is not a setting",
		"GATEWAYD_MODEL_APIKEY=sk-hunter2":                "did you mean GATEWAYD_MODEL_API_KEY?",
		"GATEWAYD_KANBAN_TASK=t1":                         "must be the number of this worker's run",
		"HERMES_KANBAN_TASK=t1":                           "HERMES_KANBAN_RUN_ID must be the number of this worker's run",
	} {
		_, err := Load(Request{Flags: map[string]string{"home": home}, Environ: []string{variable}})
		if !problem.Is(err, problem.Config) {
			t.Errorf("%s is not refused: %v", variable, err)
			continue
		}
		wantParts(t, err.Error(), want)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows a secret: %v", variable, err)
		}
	}
}

func TestABadCrashGraceMeansThirtySecondsAndOneWarning(t *testing.T) {
	home := homeWith(t, "kanban: {crash_grace: 99s}\n")
	for _, name := range []string{"GATEWAYD_KANBAN_CRASH_GRACE_SECONDS", "HERMES_KANBAN_CRASH_GRACE_SECONDS"} {
		for _, bad := range []string{"", "abc", "-1", "1.5", "30s", "99999999999999999999"} {
			l := load(t, home, name+"="+bad)
			if l.Kanban.CrashGrace != 30*time.Second || len(l.Warnings) != 1 {
				t.Errorf("%s=%q: %v with warnings %q", name, bad, l.Kanban.CrashGrace, l.Warnings)
				continue
			}
			wantParts(t, l.Warnings[0], name, "30s")
		}
		for good, want := range map[string]time.Duration{"0": 0, "5": 5 * time.Second, " 7 ": 7 * time.Second} {
			if l := load(t, home, name+"="+good); l.Kanban.CrashGrace != want || len(l.Warnings) != 0 {
				t.Errorf("%s=%q: %v with warnings %q", name, good, l.Kanban.CrashGrace, l.Warnings)
			}
		}
	}
}

func TestVariablesAreRead(t *testing.T) {
	l := load(t, homeWith(t, ""), "HERMES_KANBAN_CLAIM_TTL_SECONDS=10", "GATEWAYD_KANBAN_CLAIM_TTL_SECONDS=20",
		"HERMES_KANBAN_BUSY_TIMEOUT_MS=1500", "GATEWAYD_KANBAN_DISPATCH_IN_GATEWAY=Off",
		"GATEWAYD_SERVICE_HOST=10.0.0.1", "GATEWAYD_PORT_8642_TCP=tcp://10.0.0.1", "HERMES_WHATEVER=1")
	if l.Kanban.ClaimTTL != 20*time.Second || l.Kanban.BusyPatience != 1500*time.Millisecond || l.Kanban.Dispatch {
		t.Errorf("kanban: %+v", l.Kanban)
	}
	if l.Origins["kanban.claim_ttl"].Place != "GATEWAYD_KANBAN_CLAIM_TTL_SECONDS" {
		t.Errorf("our own name must win: %+v", l.Origins["kanban.claim_ttl"])
	}
}

func TestAWorkerKnowsItsRun(t *testing.T) {
	home := homeWith(t, "")
	ours := load(t, home, "GATEWAYD_KANBAN_TASK=t_1", "GATEWAYD_KANBAN_RUN_ID=42", "GATEWAYD_KANBAN_BOARD=b", "GATEWAYD_KANBAN_DB=/x/kanban.db",
		"GATEWAYD_KANBAN_WORKSPACE=/w", "GATEWAYD_KANBAN_CLAIM_LOCK=host:1", "GATEWAYD_KEEPER=k1", "GATEWAYD_OF_A_LATER_VERSION=1")
	want := Worker{Task: "t_1", Run: 42, Board: "b", DB: "/x/kanban.db", Workspace: "/w", Lock: "host:1", Keeper: "k1"}
	if ours.Worker == nil || *ours.Worker != want {
		t.Errorf("worker: %+v", ours.Worker)
	}
	theirs := load(t, home, "HERMES_KANBAN_TASK=t_1", "HERMES_KANBAN_RUN_ID=42", "HERMES_KANBAN_DB=/x/kanban.db", "HERMES_KANBAN_CLAIM_LOCK=host:2")
	if theirs.Worker == nil || theirs.Worker.Run != 42 || theirs.Worker.DB != "/x/kanban.db" {
		t.Errorf("worker of the original: %+v", theirs.Worker)
	}
	if load(t, home).Worker != nil {
		t.Error("a worker outside of one")
	}
}

func TestACommandKnowsItsConversationAndWorkersAndDaemonsHaveNone(t *testing.T) {
	home := homeWith(t, "")
	if got := load(t, home, "GATEWAYD_SESSION_ID=s1").Session; got != "s1" {
		t.Errorf("session %q", got)
	}
	worker := load(t, home, "GATEWAYD_SESSION_ID=s1", "GATEWAYD_KANBAN_TASK=t_1", "GATEWAYD_KANBAN_RUN_ID=42", "GATEWAYD_KANBAN_CLAIM_LOCK=host:1")
	if worker.Session != "" {
		t.Errorf("a worker is part of conversation %q", worker.Session)
	}
	e := Environ{"A=1", "GATEWAYD_SESSION_ID=s1"}
	if got := e.WithoutWorker(); len(got) != 1 || len(e) != 2 || e.Get("GATEWAYD_SESSION_ID") != "s1" {
		t.Errorf("a daemon inherits %q of %q", got, e)
	}
}

func TestAnEnvironmentIsHandedOnByNameOnly(t *testing.T) {
	e := Environ{"A=1", "B=2", "A=3", "SECRET=x", "EMPTY=", "BROKEN"}
	if got := e.Allow("B", "A", "NONE", "EMPTY", "B", "BROKEN"); strings.Join(got, " ") != "B=2 A=3 EMPTY=" {
		t.Errorf("allowed: %q", got)
	}
	if e.Get("A") != "3" || e.Get("NONE") != "" {
		t.Error("get")
	}
}

func TestFlagsAreHeldToTheSameRules(t *testing.T) {
	home := homeWith(t, "")
	for name, c := range map[string][2]string{
		"addr":                 {"box", "--addr: api.addr must be HOST:PORT"},
		"kanban.interval":      {"60", "--kanban.interval (kanban.interval) must be a duration with a unit"},
		"agent.max_iterations": {"x", "must be a whole number"},
		"nonsense":             {"1", "--nonsense is not a setting"},
		"kanban.lanes":         {"x", "--kanban.lanes is not a setting"},
	} {
		_, err := Load(Request{Flags: map[string]string{"home": home, name: c[0]}})
		if err == nil {
			t.Errorf("--%s %s is not refused", name, c[0])
			continue
		}
		wantParts(t, err.Error(), c[1])
	}
}

func TestTheModelsKeyIsFoundInOrder(t *testing.T) {
	home := homeWith(t, "model: {api_key_env: MY_KEY, api_key_file: model.key}\n")
	write(t, home+"/model.key", "from-file\n")
	for _, c := range []struct {
		environ []string
		want    string
		source  Source
	}{
		{[]string{"GATEWAYD_MODEL_API_KEY=from-ours", "MY_KEY=from-named"}, "from-ours", FromEnv},
		{[]string{"MY_KEY=from-named"}, "from-named", FromEnv},
		{nil, "from-file", FromFile},
	} {
		l := load(t, home, c.environ...)
		if got := l.Model.APIKey.Reveal(); got != c.want || l.Origins["model.api_key"].Source != c.source {
			t.Errorf("%v: key %q from %+v", c.environ, got, l.Origins["model.api_key"])
		}
	}
	handed := t.TempDir()
	write(t, handed+"/model.api_key", "from-systemd\n")
	if l := load(t, homeWith(t, ""), "CREDENTIALS_DIRECTORY="+handed); l.Model.APIKey.Reveal() != "from-systemd" || l.Origins["model.api_key"].Source != FromCredential {
		t.Errorf("a credential: %+v", l.Origins["model.api_key"])
	}
	if l := load(t, home, "CREDENTIALS_DIRECTORY="+handed); l.Model.APIKey.Reveal() != "from-file" {
		t.Error("a credential wins over the file that the configuration names")
	}
	l := load(t, homeWith(t, "model: {api_key_env: MY_KEY}\n"))
	if l.Model.APIKey.Set() || len(l.Warnings) != 1 {
		t.Errorf("a named variable that is not set needs one warning: %q", l.Warnings)
	}
	write(t, home+"/model.key", "two words\n")
	wantParts(t, refusal(t, home), "must hold the key and nothing else")
}

func TestEveryProblemIsOneLine(t *testing.T) {
	_, err := Load(Request{Flags: map[string]string{"home": homeWith(t, "api:\n  adr: x\n  addr: y\n")}, Environ: []string{"GATEWAYD_X=1"}})
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) || len(many.Unwrap()) != 3 {
		t.Fatalf("want three problems: %v", err)
	}
	for _, one := range many.Unwrap() {
		if strings.Contains(one.Error(), "\n") {
			t.Errorf("%q", one)
		}
	}
}
