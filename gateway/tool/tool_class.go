package tool

import (
	"encoding/json"
	"slices"
	"strings"
)

// Class says beside what a call may run.
type Class string

const (
	ClassRead        Class = "read"        // without effect: beside anything, and again if need be
	ClassEffect      Class = "effect"      // with an effect: beside anything; a file is locked by its path while it is changed
	ClassDestructive Class = "destructive" // takes something away or ends something: never beside another one of its answer
)

// classed is a tool whose calls differ in what they may run beside.
type classed interface {
	Class(args json.RawMessage) Class
}

// Class gives the class of a call before it runs. A call that will only be answered (an unknown tool, arguments that are no
// object) has no effect.
func (s *Set) Class(name string, args json.RawMessage) Class {
	t := s.find(name)
	if t == nil || !isObject(args) || t.ReadOnly(args) {
		return ClassRead
	}
	if c, ok := t.(classed); ok {
		return c.Class(args)
	}
	return ClassEffect
}

// takesAway are programs whose use removes, overwrites or ends something. Two of them at once may take away what the other one
// looks at; that one is missing here costs an order, not a permission.
var takesAway = []string{
	"rm", "rmdir", "unlink", "shred", "truncate", "dd", "mv", "kill", "pkill", "killall", "systemctl", "service", "reboot", "shutdown",
	"mkfs", "wipefs", "umount", "userdel", "dropdb", "chmod", "chown",
}

// takesAwayWith are programs of which some verbs do.
var takesAwayWith = map[string][]string{
	"git":     {"reset", "clean", "checkout", "restore", "switch", "rebase", "merge", "stash", "pull", "push", "rm", "mv", "branch", "worktree"},
	"docker":  {"rm", "rmi", "kill", "stop", "prune", "system", "volume", "compose"},
	"podman":  {"rm", "rmi", "kill", "stop", "prune", "system", "volume"},
	"kubectl": {"delete", "drain", "replace", "apply", "scale"},
	"find":    {"-delete", "-exec"},
	"sed":     {"-i", "--in-place"},
	"rsync":   {"--delete"},
}

// destructive reports whether a shell command takes something away, as far as its words tell.
func destructive(command string) bool {
	acts, _ := actions(command, standing{}, nil)
	for _, a := range acts {
		if slices.Contains(takesAway, a.name) || strings.HasPrefix(a.name, "mkfs.") {
			return true
		}
		if verbs, ok := takesAwayWith[a.name]; ok && a.has(verbs...) {
			return true
		}
	}
	return false
}
