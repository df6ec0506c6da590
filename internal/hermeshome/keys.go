package hermeshome

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatewayd/config"
)

// keyring is what goes into the home's .env.
type keyring struct {
	names  []string // in order
	text   map[string]string
	theirs map[string]bool // variables of Hermes' .env
}

func (k *keyring) add(name, value string) {
	if _, there := k.text[name]; !there {
		k.names = append(k.names, name)
	}
	k.text[name] = value
}

// platforms are the beginnings of names that only chats need.
var platforms = []string{"TELEGRAM", "DISCORD", "SLACK", "WHATSAPP", "SIGNAL", "MATRIX", "FEISHU", "DINGTALK", "WECOM", "TWILIO", "EMAIL", "HASS"}

// readKeys takes the variables of Hermes' .env into the account, and says which of them are keys. used names those that a setting asks for.
func (m *move) readKeys(used map[string]bool) keyring {
	k := keyring{text: map[string]string{}, theirs: map[string]bool{}}
	path := filepath.Join(m.Dir, ".env")
	list, mistakes, err := config.ReadEnvFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k
	}
	if err != nil {
		m.report.settle("file", ".env", Failed, err.Error(), "")
		return k
	}
	m.report.unfold("file", ".env")
	for i, wrong := range mistakes {
		m.report.settle("key", fmt.Sprintf("mistake %d of .env", i+1), Refused, wrong, "")
	}
	for _, v := range list {
		if why := notBrought(v, used[v.Name]); why != "" {
			m.report.settle("key", v.Name, Skipped, why, "")
			continue
		}
		m.report.find("key", v.Name)
		k.theirs[v.Name] = true
		k.add(v.Name, v.Value.Reveal())
	}
	return k
}

func notBrought(v config.EnvVariable, used bool) string {
	switch {
	case config.IsSetting(v.Name):
		return "is a setting and no key; set its equal in config.yaml"
	case !v.Value.Set():
		return "is empty"
	case used:
		return ""
	case slices.ContainsFunc(platforms, func(p string) bool { return strings.HasPrefix(v.Name, p) }):
		return "is for a chat platform, of which gatewayd has none"
	case strings.HasPrefix(v.Name, "HERMES_"), !config.LooksSecret(v.Name):
		return "is no key, and nothing that was brought asks for it"
	}
	return ""
}

// store adds the keys to the home's .env, where they are not yet. What is there is never changed.
func (m *move) store(k keyring) error {
	path := filepath.Join(m.Home.Home, ".env")
	list, _, err := config.ReadEnvFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		for _, name := range k.names {
			m.settleKey(k, name, Failed, "the home's .env cannot be read: "+err.Error())
		}
		return nil
	}
	mine := map[string]config.Secret{}
	for _, v := range list {
		mine[v.Name] = v.Value
	}
	var more strings.Builder
	for _, name := range k.names {
		have, there := mine[name]
		switch {
		case there && have.Matches(k.text[name]):
			m.settleKey(k, name, Present, "")
		case there:
			m.settleKey(k, name, Skipped, "the home's .env has another value for it")
		default:
			fmt.Fprintf(&more, "%s=%s\n", name, quoted(k.text[name]))
			m.settleKey(k, name, Imported, "")
		}
	}
	if more.Len() == 0 || m.DryRun {
		return nil
	}
	return appendWhole(path, more.String())
}

func (m *move) settleKey(k keyring, name string, o Outcome, why string) {
	if k.theirs[name] { // the others came out of a setting and are accounted for there
		m.report.settle("key", name, o, why, filepath.Join(m.Home.Home, ".env"))
	}
}

// appendWhole adds lines to a private file, which has the old text or the new one at any moment.
func appendWhole(path, more string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	text := string(old)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err := config.WriteWhole(path, text+more); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

var envEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// quoted writes a value so that it is read back as it is.
func quoted(value string) string { return `"` + envEscaper.Replace(value) + `"` }
