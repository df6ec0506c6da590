package procfs

import (
	"os"
	"strings"
)

// Program gives the path of the program that a process runs, and whether that file is gone or has another in its place: the
// process goes on with what it was started from. Another user's process is not told.
func Program(pid int) (name string, replaced bool, err error) {
	target, err := os.Readlink(path(pid, "exe"))
	if err != nil {
		return "", false, gone(err)
	}
	name, replaced = strings.CutSuffix(target, deletedMark)
	return name, replaced, nil
}
