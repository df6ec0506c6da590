package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"

	"gatewayd/internal/mutation"
)

// dotenvName is the file of a home that holds variables, its secrets above all.
const dotenvName = ".env"

// dotenvFile is what a home's .env says.
type dotenvFile struct {
	settings Environ           // names that are settings
	place    map[string]string // of each name: "/home/a/.gatewayd/.env:3"
	adds     map[string]bool   // names that are no settings and not set in the environment
}

// like names the variable of .env that is nearest to one that is missing, as " (did you mean …?)".
func (f dotenvFile) like(name string) string {
	guess := Nearest(name, sortedKeys(reflect.ValueOf(f.place)))
	if guess == "" || guess == name {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s of %s?)", guess, f.place[guess])
}

// dotenv reads the home's .env. What is a setting there is weaker than config.yaml; every other variable is added to the environment
// where it is missing.
func (l *loader) dotenv() {
	path := filepath.Join(l.Home, dotenvName)
	text, err := readSmall(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, os.ErrPermission) && !canEnter(l.Home):
		return // whoever cannot get at the home hears of it from config.yaml
	case err != nil:
		l.refuse(path, "cannot be read", "make it a readable text file or remove it", err)
		return
	}
	if !l.dotenvMode(path) {
		return
	}
	lines, mistakes := parseEnv(text)
	for _, m := range mistakes {
		l.refuse(fmt.Sprintf("%s:%d", path, m.line), m.what, m.remedy, nil)
	}
	l.takeDotenv(path, lines)
}

func canEnter(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "."))
	return err == nil
}

// dotenvMode refuses a file that everybody may write, who could so have the daemon ask another model and use another key. That others
// may read it is a warning, as for api.key: not starting would not take back what they read.
func (l *loader) dotenvMode(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return true
	}
	mode := info.Mode().Perm()
	switch remedy := "`chmod 600 " + path + "` closes it"; {
	case mode&0o002 != 0 && !mutation.On("env-that-all-may-write-is-read"):
		l.refuse(path, fmt.Sprintf("may be written by every user of this machine (mode %04o)", mode), remedy, nil)
		return false
	case mode&0o077 != 0:
		l.Warnings = append(l.Warnings, fmt.Sprintf("%s is open to other users (mode %04o): %s", path, mode, remedy))
	}
	return true
}

func (l *loader) takeDotenv(path string, lines []envLine) {
	l.env = dotenvFile{place: map[string]string{}, adds: map[string]bool{}}
	var more Environ
	known := knownVariables()
	for _, line := range lines {
		place := fmt.Sprintf("%s:%d", path, line.line)
		word := line.name + "=" + line.value
		l.env.place[line.name] = place
		switch _, set := l.Environ.Lookup(line.name); {
		case looksOurs(line.name):
			if l.allowedInDotenv(line.name, place, known) {
				l.env.settings = append(l.env.settings, word)
			}
		case !set:
			l.env.adds[line.name] = true
			more = append(more, word)
		}
	}
	l.variables(l.env.settings, func(name string) Origin { return Origin{Source: FromDotenv, Place: l.env.place[name]} })
	l.Environ = append(more, l.Environ...)
}

// looksOurs reports a name that is, or was meant to be, a setting of ours or of a board.
func looksOurs(name string) bool {
	upper := strings.ToUpper(name)
	return strings.HasPrefix(upper, "GATEWAY") || strings.HasPrefix(upper, "HERMES_KANBAN_")
}

// allowedInDotenv refuses what is no setting, and what a file of the home cannot say: where the home is, and who works for whom.
func (l *loader) allowedInDotenv(name, place string, known map[string]bool) bool {
	switch {
	case name == homeEnv, name == sessionEnv:
		l.refuse(place+": "+name, "cannot be set in a file of the home", "set it in the environment, or give --home", nil)
		return false
	case known[name], known["GATEWAYD_"+strings.TrimPrefix(name, "HERMES_")]:
		return true
	case tolerated(name), l.insideWorker():
		return false
	}
	remedy := "take the line out; `gatewayd config show` lists all settings"
	if guess := Nearest(strings.ToUpper(name), sortedKeys(reflect.ValueOf(known))); guess != "" {
		remedy = "did you mean " + guess + "?"
	}
	l.refuse(place+": "+name, "is not a setting", remedy, nil)
	return false
}
