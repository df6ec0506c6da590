package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// MCPServer is a server of the Model Context Protocol whose tools the model may call: a program that is started and spoken with, or
// an address.
type MCPServer struct {
	// Command is the program; it is started without a shell and ends with the daemon.
	Command string `yaml:"command"`
	// Args are its words.
	Args []string `yaml:"args"`
	// Env adds variables to its environment, which is a short list and not the daemon's own. ${NAME} stands for a variable of the
	// daemon, ${file:PATH} for what a file holds.
	Env map[string]string `yaml:"env"`
	// URL of a server that is reached by streamable HTTP instead.
	URL string `yaml:"url" kind:"hook"`
	// Headers are sent with each request; ${NAME} and ${file:PATH} as in Env.
	Headers map[string]string `yaml:"headers"`
	// Timeout of one call of a tool.
	Timeout time.Duration `yaml:"timeout" default:"120s" min:"1s" max:"1h"`
	// ConnectTimeout until it has said what tools it has.
	ConnectTimeout time.Duration `yaml:"connect_timeout" default:"30s" min:"1s" max:"10m"`
	// Include names the tools that are offered to the model, as the server calls them; * stands for any text. Empty is all.
	Include []string `yaml:"include"`
	// Exclude names those that are not.
	Exclude []string `yaml:"exclude"`
	// Trust says that what the server claims of its tools is believed: calls that it says only read, or add, are not asked about.
	Trust bool `yaml:"trust" default:"false"`

	// Filled is Env and Headers with their secrets, found by Load: NAME=VALUE words.
	Filled MCPSecrets `yaml:"-"`
}

// MCPSecrets are the values that a server is given, each of which may be a secret.
type MCPSecrets struct{ Env, Headers map[string]Secret }

const mcpKey = "mcp_servers"

// settleMCP fills in the secrets. One that is not there is refused: a server that is called without it fails in its own words.
func (l *loader) settleMCP() {
	for name, server := range l.MCPServers {
		server.Filled.Env = l.filled(mcpKey+"."+name+".env", server.Env)
		server.Filled.Headers = l.filled(mcpKey+"."+name+".headers", server.Headers)
		l.MCPServers[name] = server
	}
}

var reference = regexp.MustCompile(`\$\{([^}]*)\}`)

func (l *loader) filled(key string, values map[string]string) map[string]Secret {
	out := map[string]Secret{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := reference.ReplaceAllStringFunc(values[name], func(ref string) string {
			value, err := l.referred(ref[2 : len(ref)-1])
			if err != nil {
				l.refuse(l.place(key)+": "+key+"."+name, "names "+ref+", which "+err.Error(), "set it, or take it out", nil)
			}
			return value
		})
		out[name] = NewSecret(text)
	}
	return out
}

func (l *loader) referred(ref string) (string, error) {
	path, isFile := strings.CutPrefix(ref, "file:")
	switch {
	case isFile:
		text, err := readSmall(l.absolute(path))
		if err != nil {
			return "", fmt.Errorf("cannot be read: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	case !envName.MatchString(ref):
		return "", fmt.Errorf("is no name of a variable")
	}
	value, ok := l.Environ.Lookup(ref)
	if !ok {
		return "", fmt.Errorf("is not set")
	}
	return value, nil
}

func (l *loader) validateMCP() {
	for _, name := range sortedKeys(reflect.ValueOf(l.MCPServers)) {
		key, server := mcpKey+"."+name, l.MCPServers[name]
		at := l.place(key+".command") + ": " + key
		switch {
		case !laneName.MatchString(name):
			l.refuse(fmt.Sprintf("%s: %s.%q", l.place(key+".command"), mcpKey, name), nameRule, "", nil)
		case (server.Command == "") == (server.URL == ""):
			l.refuse(at, "must say one of command and url", "give a program, or an address that begins with http", nil)
		case server.Command != "" && len(server.Args) == 0 && strings.ContainsRune(server.Command, ' ') && !strings.HasPrefix(server.Command, "/"):
			l.refuse(at+".command", "is one word with spaces: it is never split", "put the words behind the program into args", nil)
		case server.Command != "" && len(server.Headers) > 0:
			l.refuse(at+".headers", "have no meaning for a program", "give secrets in env", nil)
		case server.URL != "" && len(server.Args)+len(server.Env) > 0:
			l.refuse(at, "has args or env, which have no meaning for an address", "give secrets in headers", nil)
		}
	}
}
