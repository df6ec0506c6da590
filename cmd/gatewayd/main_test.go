package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gatewayd/internal/mutation"
	"gatewayd/reaper"
)

func TestMain(m *testing.M) {
	reaper.Main()
	testscript.Main(m, map[string]func(){"gatewayd": main})
}

// The scripts are what a person types, and what must appear.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GATEWAYD_HOME", env.WorkDir+"/home")
			if name := os.Getenv(mutation.Variable); name != "" {
				env.Setenv(mutation.Variable, name)
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "truncate": truncate, "sql": sql, "converse": converse, "lose": lose, "newer": newer, "salvageonly": salvageOnly},
	})
}

// exits runs a program and wants this exit code: `exits 78 gatewayd config check`.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("%v: exit code %d, want %d", args[1:], code, want)
	}
}

// truncate cuts a file to a size: `truncate FILE BYTES`.
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}
