package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gatewayd/sessiondb"
)

// converse plants a conversation of so many turns: `converse SESSION TURNS`.
func converse(ts *testscript.TestScript, _ bool, args []string) {
	turns, err := strconv.Atoi(args[1])
	ts.Check(err)
	ctx := context.Background()
	s, err := sessiondb.Open(ctx, sessiondb.Options{Path: filepath.Join(ts.Getenv("GATEWAYD_HOME"), "state.db")})
	ts.Check(err)
	defer s.Close()
	_, err = s.CreateSession(ctx, sessiondb.NewSession{ID: args[0]})
	ts.Check(err)
	self, err := sessiondb.SelfHolder("test")
	ts.Check(err)
	l, err := s.TryTurn(ctx, args[0], self, 0)
	ts.Check(err)
	for i := range turns {
		_, err := s.Append(ctx, l, []sessiondb.NewMessage{
			{Role: "user", Content: fmt.Sprint("question ", i+1)},
			{Role: "assistant", Content: fmt.Sprint("answer ", i+1)},
		})
		ts.Check(err)
	}
	ts.Check(s.Release(ctx, l))
}

// A folded conversation is printed as the model is sent it: nothing of how its rows are kept.
func TestAFoldedConversationIsPrintedInWords(t *testing.T) {
	var out strings.Builder
	printTranscript(&out, []sessiondb.Message{
		{Role: "user", Kind: sessiondb.KindModelOnly, Content: `{"messages":["plant the bed"]}`, Wire: "[What was asked]\n\nplant the bed"},
		{Role: "user", Content: "and water it", Wire: "[after a restart] and water it"},
	})
	if got := out.String(); strings.Contains(got, "{") || !strings.Contains(got, "plant the bed") || strings.Contains(got, "restart") {
		t.Error(got)
	}
}
