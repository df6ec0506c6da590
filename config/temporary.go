package config

import (
	"os"

	"golang.org/x/sys/unix"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// spillVariable is where SQLite looks first for a directory of temporary files; it is told so by nothing else.
const spillVariable = "SQLITE_TMPDIR"

// Temporary gives the directory of temporary files, TMPDIR or else /tmp, or a problem that names it where nothing can be made there. It makes
// nothing to find out.
func Temporary() (dir string, err error) {
	dir = os.TempDir()
	err = unix.Access(dir+"/.", unix.W_OK|unix.X_OK) // the dot refuses what is no directory
	if err == nil || mutation.On("temporary-is-always-there") {
		return dir, nil
	}
	thing := dir
	if os.Getenv("TMPDIR") != "" {
		thing = "TMPDIR " + dir
	}
	return dir, &problem.Error{
		Kind: problem.Config, Thing: thing, What: "takes no temporary files", Fate: "nothing was done",
		Remedy: "make it a directory that this user can write, or set TMPDIR to one", Err: err,
	}
}

// SpillInto makes SQLite keep in a directory what a statement has no memory for, in files without a name, where TMPDIR is not to be had. It is
// called before anything is opened, and changes nothing where TMPDIR, or SQLITE_TMPDIR, can be used. It tells whether it had to.
func SpillInto(dir string) bool {
	if os.Getenv(spillVariable) != "" {
		return false
	}
	if _, err := Temporary(); err == nil {
		return false
	}
	return os.Setenv(spillVariable, dir) == nil
}
