package main

import (
	"errors"

	"gatewayd/internal/problem"
)

// The exit codes are sysexits.h's where it has one, so that a supervisor and a script can tell them apart.
const (
	exitDone       = 0
	exitFailed     = 1
	exitUsage      = 2
	exitNotRunning = 69 // EX_UNAVAILABLE: the daemon is not running
	exitRestart    = 75 // EX_TEMPFAIL: start it again
	exitConfig     = 78 // EX_CONFIG: restarting does not help
)

// exitByKind is the one place where a kind of trouble becomes an exit code; what is not listed is exitFailed.
var exitByKind = map[problem.Kind]int{
	problem.NotRunning: exitNotRunning,
	problem.Restart:    exitRestart,
	problem.Config:     exitConfig,
}

// errSaid ends a verb that failed and has already printed why.
var errSaid = errors.New("said")

// codeError ends a verb with a code of its own, everything said.
type codeError int

func (codeError) Error() string        { return errSaid.Error() }
func (codeError) Is(target error) bool { return target == errSaid }

func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[codeError](err); ok {
		return int(code)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if code, ok := exitByKind[problem.KindOf(err)]; ok {
		return code
	}
	return exitFailed
}
