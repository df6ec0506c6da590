package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gatewayd/config"
)

// MissingProgram says which program of the lane cannot be found, or "". A lane without its program holds its
// cards back; starting them would only burn their retries. A program named relative to the workspace cannot
// be looked for before there is one.
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
	env := config.Environ(environment(daemon, l, nil))
	for _, dir := range filepath.SplitList(env.Get("PATH")) {
		if filepath.IsAbs(dir) && executable(filepath.Join(dir, program)) {
			return ""
		}
	}
	return program
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// MissingRemedy says what to do about it.
func (l Lane) MissingRemedy(program string) string {
	if filepath.IsAbs(program) {
		return fmt.Sprintf("install %s, or correct kanban.lanes.%s.argv", program, l.Name)
	}
	return fmt.Sprintf("install %s on the daemon's PATH, or give its full path in kanban.lanes.%s.argv", program, l.Name)
}
