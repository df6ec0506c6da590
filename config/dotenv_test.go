package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestAnEnvFileIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string][]envLine{
		"":                              nil,
		"\xef\xbb\xbfA=1\r\nB=2\r\n":    {{"A", "1", 1}, {"B", "2", 2}},
		"# c\n\n  \t\nexport A = 1 # c": {{"A", "1", 4}},
		"A=":                            {{"A", "", 1}},
		"A= # none":                     {{"A", "", 1}},
		"A=#1":                          {{"A", "", 1}},
		"A=a#b":                         {{"A", "a#b", 1}},
		"A=pa$$word=${X}":               {{"A", "pa$$word=${X}", 1}},
		`A='a\n$B # "x"' # c`:           {{"A", `a\n$B # "x"`, 1}},
		`A="a\n\t\"\\\$\q'"`:            {{"A", "a\n\t\"\\$\\q'", 1}},
		"A=\"one\ntwo\"\nB='x\ny'\nC=3": {{"A", "one\ntwo", 1}, {"B", "x\ny", 3}, {"C", "3", 5}},
		"exported=1":                    {{"exported", "1", 1}},
		"A=ключ":                        {{"A", "ключ", 1}},
	} {
		lines, mistakes := parseEnv([]byte(text))
		if diff := cmp.Diff(want, lines, cmp.AllowUnexported(envLine{})); diff != "" || len(mistakes) > 0 {
			t.Errorf("%q: %+v %s", text, mistakes, diff)
		}
	}
}

func TestAMistakeInAnEnvFileIsNamedWithItsLineAndNeverItsValue(t *testing.T) {
	for text, want := range map[string]string{
		"A=1\nhunter2":                      ".env:2 is no variable: there is no =",
		"A=1\n\nA=hunter2":                  ".env:3 gives A again, first in line 1",
		"1A=hunter2":                        ".env:1 does not begin with the name of a variable",
		"=hunter2":                          ".env:1 does not begin with the name",
		"A=\"hunter2\nB=1":                  ".env:1 opens a quote for A that is never closed",
		"A='x'hunter2":                      ".env:1 has text behind the closing quote of A",
		"A=1\nB=hunter2\x00":                ".env:2 is not text: it holds zero bytes",
		"A=1\nB=hunter2\xff":                ".env:2 is not UTF-8",
		"\xff\xfeA\x00":                     ".env:1 is UTF-16",
		"X=1\nGATEWAYD_ADRR=hunter2":        ".env:2: GATEWAYD_ADRR is not a setting; did you mean GATEWAYD_ADDR?",
		"gatewayd_addr=127.0.0.1:1":         "did you mean GATEWAYD_ADDR?",
		"GATEWAY_MODEL_API_KEY=hunter2":     "did you mean GATEWAYD_MODEL_API_KEY?",
		"GATEWAYD_HOME=/hunter2":            ".env:1: GATEWAYD_HOME cannot be set in a file of the home",
		"GATEWAYD_KANBAN_TASK=hunter2":      "GATEWAYD_KANBAN_TASK is not a setting",
		"\nGATEWAYD_LOG_LEVEL=loud hunter2": ".env:2: log.level must be one of",
	} {
		home := homeWith(t, "")
		write(t, filepath.Join(home, ".env"), text)
		got := refusal(t, home)
		wantParts(t, got, want)
		if strings.Contains(got, "hunter2") {
			t.Errorf("%q: a value is shown: %s", text, got)
		}
	}
}

func TestAFlagWinsOverAVariableOverTheFileOverTheEnvFile(t *testing.T) {
	home := homeWith(t, "log: {format: json}\nmodel:\n  name: of-file\n")
	dotenv := filepath.Join(home, ".env")
	write(t, dotenv, "GATEWAYD_MODEL_NAME=of-env-file\nGATEWAYD_LOG_LEVEL=debug\nGATEWAYD_ADDR=127.0.0.1:1\nHERMES_KANBAN_CLAIM_TTL_SECONDS=7\nGATEWAYD_KANBAN_HOME=/boards\n")
	l, err := Load(Request{Flags: map[string]string{"home": home, "log-level": "warn"}, Environ: []string{"GATEWAYD_ADDR=127.0.0.1:2"}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "config.yaml")
	for key, want := range map[string]Origin{
		"model.name":       {"of-file", FromFile, file + ":3", dotenv + ":1"},
		"log.level":        {"warn", FromFlag, "--log-level", dotenv + ":2"},
		"api.addr":         {"127.0.0.1:2", FromEnv, "GATEWAYD_ADDR", dotenv + ":3"},
		"kanban.claim_ttl": {"7s", FromDotenv, dotenv + ":4", ""},
		"kanban.root":      {"/boards", FromDotenv, dotenv + ":5", ""},
	} {
		if got := l.Origins[key]; got != want {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
	if l.Model.Name != "of-file" || l.Log.Level != "warn" || l.API.Addr != "127.0.0.1:2" || l.Kanban.Root != "/boards" {
		t.Errorf("values do not follow their origins: %+v", l.Config)
	}
}

// A key comes from the first of: its variable, the variable or file that the configuration names, a credential, .env.
func TestAModelsKeyIsFoundWhereItIsAndSaysSo(t *testing.T) {
	credentials := t.TempDir()
	write(t, filepath.Join(credentials, "model.api_key"), "of-credential\n")
	write(t, filepath.Join(credentials, "model.fallbacks.0.api_key"), "of-fallback\n")
	const named = "model: {api_key_env: MY_KEY}\n"
	for _, c := range []struct {
		yaml, dotenv string
		environ      []string
		key          string
		source       Source
		place        string
	}{
		{"", "GATEWAYD_MODEL_API_KEY=of-env-file", nil, "of-env-file", FromDotenv, ".env:1"},
		{named, "\nMY_KEY='of-env-file'\nGATEWAYD_MODEL_API_KEY=x", nil, "of-env-file", FromDotenv, ".env:2"},
		{named, "MY_KEY=of-env-file", []string{"MY_KEY=of-variable"}, "of-variable", FromEnv, "MY_KEY"},
		{"", "GATEWAYD_MODEL_API_KEY=x", []string{"CREDENTIALS_DIRECTORY=" + credentials}, "of-credential", FromCredential, "model.api_key"},
		{"", "GATEWAYD_MODEL_API_KEY=x", []string{"GATEWAYD_MODEL_API_KEY=of-variable"}, "of-variable", FromEnv, "GATEWAYD_MODEL_API_KEY"},
	} {
		home := homeWith(t, c.yaml)
		write(t, filepath.Join(home, ".env"), c.dotenv)
		l := load(t, home, c.environ...)
		from := l.Origins["model.api_key"]
		if l.Model.APIKey.Reveal() != c.key || from.Source != c.source || !strings.HasSuffix(from.Place, c.place) || strings.Contains(from.Value, c.key) {
			t.Errorf("%+v: %+v", c, from)
		}
	}
	l := load(t, homeWith(t, "model: {fallbacks: [{base_url: http://127.0.0.1:1/v1}]}\n"), "CREDENTIALS_DIRECTORY="+credentials)
	if from := l.Origins["model.fallbacks[0].api_key"]; l.Model.Fallbacks[0].APIKey.Reveal() != "of-fallback" || from.Source != FromCredential {
		t.Errorf("a fallback's credential: %+v", from)
	}
	misspelt := homeWith(t, named)
	write(t, filepath.Join(misspelt, ".env"), "MY_KEYS=x")
	wantParts(t, strings.Join(load(t, misspelt).Warnings, "\n"), "names MY_KEY, which is not set (did you mean MY_KEYS of ", ".env:1?)")
}

func TestAnEnvFileThatOthersReachIsSaid(t *testing.T) {
	home := homeWith(t, "")
	path := filepath.Join(home, ".env")
	for mode, want := range map[os.FileMode]string{0o600: "", 0o640: "is open to other users (mode 0640)", 0o644: "is open to other users (mode 0644)", 0o666: "refused"} {
		write(t, path, "GATEWAYD_LOG_LEVEL=debug")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if want == "refused" {
			wantParts(t, refusal(t, home), path, "may be written by every user", "chmod 600")
			continue
		}
		l := load(t, home)
		if l.Log.Level != "debug" || !strings.Contains(strings.Join(l.Warnings, ""), want) || want == "" && len(l.Warnings) > 0 {
			t.Errorf("%04o: %q", mode, l.Warnings)
		}
	}
}

// What .env says of a board's worker, or of the daemon's own home, must not reach the environment by another door.
func TestAnEnvFileAddsToTheEnvironmentAndReplacesNothing(t *testing.T) {
	home := homeWith(t, "")
	write(t, filepath.Join(home, ".env"), "PATH=/mine\nTOKEN=t\nGATEWAYD_LOG_LEVEL=debug\n")
	l := load(t, home, "PATH=/theirs")
	if l.Environ.Get("PATH") != "/theirs" || l.Environ.Get("TOKEN") != "t" || l.Environ.Get("GATEWAYD_LOG_LEVEL") != "" {
		t.Errorf("%q", l.Environ)
	}
}

func TestASecretThatChangesBehindItsNameIsAChange(t *testing.T) {
	home := homeWith(t, "model: {fallbacks: [{base_url: http://127.0.0.1:1/v1, api_key_file: k}]}\nmcp_servers: {m: {command: x, env: {TOKEN: \"${file:k}\"}}}\n")
	write(t, filepath.Join(home, "k"), "one")
	before := load(t, home)
	write(t, filepath.Join(home, "k"), "two")
	var keys []string
	for _, c := range before.Changes(load(t, home)) {
		keys = append(keys, c.Key+": "+c.Live)
		if strings.Contains(c.From+c.To, "one") || strings.Contains(c.From+c.To, "two") {
			t.Errorf("a secret is shown: %+v", c)
		}
	}
	if diff := cmp.Diff([]string{"model.fallbacks[0].api_key: " + LiveMessage, "mcp_servers.m.env: "}, keys); diff != "" {
		t.Error(diff)
	}
}

// Whatever a .env holds: no panic, lines that exist, names that are names, each once, and text that stays text.
func FuzzParseEnv(f *testing.F) {
	for _, seed := range []string{"", "A=1", "export A='x\ny' # c\r\nB=\"\\n\"", "\xef\xbb\xbfA=", "A=\"", "=\n==\n#", "A\n=1", "A=\\"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, mistakes := parseEnv(text)
		last, seen, most := 0, map[string]bool{}, strings.Count(string(text), "\n")+1
		for _, l := range lines {
			if l.line <= last || l.line > most || seen[l.name] || !envName.MatchString(l.name) || !utf8.ValidString(l.value) || strings.ContainsRune(l.value, 0) {
				t.Errorf("%q: %+v", text, l)
			}
			last, seen[l.name] = l.line, true
		}
		for _, m := range mistakes {
			if m.line < 1 || m.line > most {
				t.Errorf("%q: %+v", text, m)
			}
		}
	})
}
