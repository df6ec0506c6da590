package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gatewayd/config"
)

// MissingProgram says which program of the lane cannot be run, or "": its name, or its path where there is something
// that is no program. A lane without its program holds its cards back; starting them would only burn their retries. A
// program named relative to the workspace cannot be looked for before there is one.
func (l Lane) MissingProgram(daemon config.Environ) string {
	program := l.Template.Program()
	switch {
	case program == "":
		return ""
	case filepath.IsAbs(program):
		if executable(program) {
			return ""
		}
		return program
	case strings.Contains(program, "/"):
		return ""
	}
	unfit := program
	env := config.Environ(environment(daemon, l, nil))
	for _, dir := range filepath.SplitList(env.Get("PATH")) {
		switch path := filepath.Join(dir, program); {
		case !filepath.IsAbs(dir):
		case executable(path):
			return ""
		case regular(path) && unfit == program:
			unfit = path
		}
	}
	return unfit
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func regular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// MissingWhat says what is wrong with what MissingProgram found.
func (l Lane) MissingWhat(program string) string {
	if !filepath.IsAbs(program) {
		return "is not there"
	}
	switch info, err := os.Stat(program); {
	case err != nil:
		return "is not there"
	case info.Mode().IsRegular():
		return "is not executable"
	}
	return "is not a file"
}

// MissingRemedy says what to do about it.
func (l Lane) MissingRemedy(program string) string {
	switch {
	case !filepath.IsAbs(program):
		return fmt.Sprintf("install %s on the daemon's PATH, or give its full path in kanban.lanes.%s.argv", program, l.Name)
	case regular(program):
		return fmt.Sprintf("`chmod +x %s` if it is the right program, or correct kanban.lanes.%s.argv", program, l.Name)
	}
	return fmt.Sprintf("install %s, or correct kanban.lanes.%s.argv", program, l.Name)
}
