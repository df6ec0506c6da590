package main

import (
	"github.com/rogpeppe/go-internal/testscript"

	"gatewayd/internal/sqlite"
)

// sql runs statements on a database as a program of others would: `sql FILE STATEMENTS-FILE`.
func sql(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENTS-FILE")
	}
	c, err := sqlite.OpenBare(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(c.Exec(ts.ReadFile(args[1])))
	ts.Check(c.Close())
}
