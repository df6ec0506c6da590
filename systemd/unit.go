package systemd

import (
	_ "embed"
	"strings"
	"text/template"
	"time"
)

// Unit is what the unit file of a daemon depends on.
type Unit struct {
	// System is a service of the machine, with a user of its own; else one of the user who installs it.
	System bool
	// Exe is the absolute path of the program.
	Exe string
	// Home of the daemon; empty is ~/.gatewayd, or /var/lib/gatewayd for a service of the machine.
	Home string
	// Stop is the longest that the daemon takes to end by itself. systemd waits half a minute more before it kills.
	Stop time.Duration
	// Listen is the ADDRESS:PORT that systemd listens on for the daemon; empty, the daemon does that itself.
	Listen string
	// Alone says that the daemon starts no workers and no commands, so that it may be fenced in as narrowly as it itself allows.
	Alone bool
}

const (
	// StateHome is the home of a service of the machine that names none: StateDirectory of its unit.
	StateHome = "/var/lib/gatewayd"
	// CacheDir is what a service of the machine and its workers have as /tmp and /var/tmp: CacheDirectory of its unit.
	CacheDir = "/var/cache/gatewayd"
)

// Mark is the first line of the units that are written here: another one is somebody else's.
const Mark = "# Made by `gatewayd install`; `gatewayd uninstall` takes it away. Changes belong into a drop-in: `systemctl edit gatewayd`."

//go:embed gatewayd.service.tmpl
var unitText string

var unitTemplate = template.Must(template.New("unit").Funcs(template.FuncMap{"program": program, "word": word, "mark": func() string { return Mark }}).Parse(unitText))

// Text is the unit file.
func (u Unit) Text() string {
	var text strings.Builder
	if err := unitTemplate.Execute(&text, u); err != nil {
		panic(err) // the template and the fields of Unit are of one mind, which a test shows
	}
	return text.String()
}

//go:embed gatewayd.socket.tmpl
var socketText string

var socketTemplate = template.Must(template.New("socket").Funcs(template.FuncMap{"mark": func() string { return Mark }}).Parse(socketText))

// SocketText is the unit of the socket that systemd listens on, and hands over.
func (u Unit) SocketText() string {
	var text strings.Builder
	if err := socketTemplate.Execute(&text, u); err != nil {
		panic(err) // as in Text
	}
	return text.String()
}

// StopSeconds is TimeoutStopSec.
func (u Unit) StopSeconds() int { return int((u.Stop + 30*time.Second).Seconds()) }

// program is a word of a command, where $ begins a variable, too.
func program(s string) string { return word(strings.ReplaceAll(s, "$", "$$")) }

// word quotes a text for a line of a unit, where blanks part words and % begins a specifier.
func word(s string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(s)
	if strings.ContainsAny(escaped, " \t'\"\\") {
		return `"` + escaped + `"`
	}
	return escaped
}
