package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Notify is who can be told of what happens to cards. Subscriptions, which are rows of a board, name them; a board that
// anybody may write to can therefore lead to no other address and run no other program.
type Notify struct {
	// Enabled says whether this daemon delivers.
	Enabled bool `yaml:"enabled" default:"true"`
	// AllowPrivate lets webhooks reach this machine and private networks. Link-local addresses are never reached.
	AllowPrivate bool `yaml:"allow_private" default:"false"`
	// Webhooks by name.
	Webhooks map[string]Webhook `yaml:"webhooks"`
	// Commands by name.
	Commands map[string]Command `yaml:"commands"`
}

// Webhook is an address that is sent each event, signed.
type Webhook struct {
	// URL takes a POST.
	URL string `yaml:"url" kind:"hook"`
	// SecretFile holds the signing secret, whsec_ and base64; relative to the home.
	SecretFile string `yaml:"secret_file" kind:"path"`
	// SecretEnv names the environment variable that holds it instead.
	SecretEnv string `yaml:"secret_env" kind:"envname"`

	// Key is the secret itself, found by Load.
	Key Secret `yaml:"-"`
}

// Command is a program that is run for each event, whose JSON is in the file that GATEWAYD_EVENT_FILE names.
type Command struct {
	// Argv is the program and its words; no shell is involved.
	Argv []string `yaml:"argv"`
}

const notifyKey = "kanban.notify"

// settleNotify reads the secrets. A webhook without one is refused: a receiver could not tell our events from forged ones.
func (l *loader) settleNotify() {
	for name, hook := range l.Kanban.Notify.Webhooks {
		key := notifyKey + ".webhooks." + name
		hook.SecretFile = l.absolute(hook.SecretFile)
		switch {
		case hook.SecretFile != "":
			text, err := readSmall(hook.SecretFile)
			if err != nil {
				l.refuse(l.place(key+".secret_file")+": "+key+".secret_file "+hook.SecretFile, "cannot be read", "put the secret into that file or correct the path", err)
			}
			hook.Key = NewSecret(strings.TrimSpace(string(text)))
			l.Origins[key+".secret"] = Origin{Value: redacted, Source: FromFile, Place: hook.SecretFile}
		case envName.MatchString(hook.SecretEnv):
			hook.Key = NewSecret(strings.TrimSpace(l.Environ.Get(hook.SecretEnv)))
			l.Origins[key+".secret"] = l.variableOrigin(hook.SecretEnv)
		default:
			hook.Key = l.credentialSecret(key + ".secret")
		}
		l.Kanban.Notify.Webhooks[name] = hook
	}
}

// credentialSecret is the secret of a key that systemd hands over; none where it does not.
func (l *loader) credentialSecret(key string) Secret {
	name := credentialName(key)
	path := l.credential(name)
	if path == "" {
		return Secret{}
	}
	text, err := readSmall(path)
	if err != nil {
		l.refuse("credential "+name, "cannot be read", "correct LoadCredential in the unit", err)
		return Secret{}
	}
	l.Origins[key] = Origin{Value: redacted, Source: FromCredential, Place: name}
	return NewSecret(strings.TrimSpace(string(text)))
}

func (l *loader) validateNotify() {
	for _, name := range sortedKeys(reflect.ValueOf(l.Kanban.Notify.Webhooks)) {
		key, hook := notifyKey+".webhooks."+name, l.Kanban.Notify.Webhooks[name]
		at := l.place(key+".url") + ": " + key
		switch {
		case !laneName.MatchString(name):
			l.refuse(l.place(key+".url")+": "+fmt.Sprintf("%s.webhooks.%q", notifyKey, name), nameRule, "", nil)
		case hook.URL == "":
			l.refuse(at, "says no url", "add `url: https://…`", nil)
		case !hook.Key.Set():
			l.refuse(at, "has no secret to sign with", "put whsec_ and base64 of 24 to 64 random bytes into a file and name it in secret_file", nil)
		}
	}
	for _, name := range sortedKeys(reflect.ValueOf(l.Kanban.Notify.Commands)) {
		key, argv := notifyKey+".commands."+name, l.Kanban.Notify.Commands[name].Argv
		at := l.place(key+".argv") + ": "
		switch {
		case !laneName.MatchString(name):
			l.refuse(at+fmt.Sprintf("%s.commands.%q", notifyKey, name), nameRule, "", nil)
		case len(argv) == 0 || argv[0] == "":
			l.refuse(at+key, "says no argv", "add `argv: [program, word, …]`", nil)
		case len(argv) == 1 && strings.ContainsRune(argv[0], ' '):
			l.refuse(at+key+".argv", "is one word with spaces: it is never split", "write each word on its own, [program, word, …]", nil)
		}
	}
}

const nameRule = "must be named with a-z, 0-9, - and _, at most 64 of them"
