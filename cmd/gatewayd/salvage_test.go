package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"gatewayd/sessiondb"
)

// lose says one thing in a conversation and loses the log that holds it, then a second thing that goes to the spool:
// `lose SESSION`. The session must be there.
func lose(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	path := filepath.Join(ts.Getenv("GATEWAYD_HOME"), "state.db")
	s, err := sessiondb.Open(ctx, sessiondb.Options{Path: path})
	ts.Check(err)
	self, err := sessiondb.SelfHolder("test")
	ts.Check(err)
	_, err = s.File().Checkpoint(ctx)
	ts.Check(err)
	l, err := s.TryTurn(ctx, args[0], self, 0)
	ts.Check(err)
	_, err = s.Append(ctx, l, []sessiondb.NewMessage{{Role: "user", Content: "said before the loss"}})
	ts.Check(err)
	ts.Check(os.Remove(path + "-wal"))
	_, err = s.Append(ctx, l, []sessiondb.NewMessage{{Role: "assistant", Content: "said after the loss"}})
	if !errors.Is(err, sessiondb.ErrSpooled) {
		ts.Fatalf("append: %v", err)
	}
	ts.Check(s.Release(ctx, l))
	ts.Check(s.Close())
}

// salvageOnly salvages the one capture that there is.
func salvageOnly(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(filepath.Join(ts.Getenv("GATEWAYD_HOME"), "state.db.retired-wal-*"))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("captures: %v", found)
	}
	ts.Check(ts.Exec("gatewayd", append([]string{"sessions", "salvage", filepath.Base(found[0])}, args...)...))
}

// newer makes the store one of a later gatewayd.
func newer(ts *testscript.TestScript, _ bool, _ []string) {
	path := filepath.Join(ts.Getenv("GATEWAYD_HOME"), "state.db")
	data, err := os.ReadFile(path)
	ts.Check(err)
	data[63] = 99 // the last byte of user_version
	ts.Check(os.WriteFile(path, data, 0o600))
}
