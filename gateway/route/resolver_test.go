package route

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gatewayd/sessiondb"
)

// The tests start this binary again as another process that asks.
func TestMain(m *testing.M) {
	if path := os.Getenv("ROUTE_ASKER"); path != "" {
		os.Exit(ask(path))
	}
	os.Exit(m.Run())
}

func ask(path string) int {
	ctx := context.Background()
	store, err := sessiondb.Open(ctx, sessiondb.Options{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for i := range askedKeys {
		session, _, err := Resolver{store}.Conversation(ctx, sessiondb.NewSession{Key: keyNumber(i), Source: "test"})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(keyNumber(i), session.ID)
	}
	return 0
}

const askedKeys = 25

func keyNumber(i int) string { return fmt.Sprintf("agent:main:telegram:dm::%d", i) }

func newStore(t *testing.T) (*sessiondb.Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	store, err := sessiondb.Open(t.Context(), sessiondb.Options{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, path
}

func TestProcessesThatAskAtOnceAgree(t *testing.T) {
	store, path := newStore(t)
	var all sync.WaitGroup
	answers := make([]string, 3)
	for i := range answers {
		all.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), "ROUTE_ASKER="+path)
			out, err := child.CombinedOutput()
			if answers[i] = string(out); err != nil {
				t.Errorf("asker %d: %v: %s", i, err, out)
			}
		})
	}
	all.Wait()
	if strings.Count(answers[0], "\n") != askedKeys || answers[1] != answers[0] || answers[2] != answers[0] {
		t.Errorf("they do not agree:\n%s\n%s\n%s", answers[0], answers[1], answers[2])
	}
	list, err := store.Sessions(t.Context(), sessiondb.ListFilter{Limit: 500})
	if err != nil || len(list) != askedKeys {
		t.Errorf("%d sessions for %d keys, %v", len(list), askedKeys, err)
	}
}

func TestAskingTwiceMakesOneAndLookingMakesNone(t *testing.T) {
	store, _ := newStore(t)
	r, key := Resolver{store}, keyNumber(1)
	if _, there, err := r.Look(t.Context(), key); there || err != nil {
		t.Fatalf("a conversation before the first: %v %v", there, err)
	}
	if list, _ := store.Sessions(t.Context(), sessiondb.ListFilter{}); len(list) != 0 {
		t.Fatalf("looking made %v", list)
	}
	one, made, err := r.Conversation(t.Context(), sessiondb.NewSession{Key: key})
	if !made || err != nil {
		t.Fatalf("made %v, %v", made, err)
	}
	two, made, err := r.Conversation(t.Context(), sessiondb.NewSession{Key: key})
	if made || err != nil || two.ID != one.ID {
		t.Errorf("asked again: %s after %s, made %v, %v", two.ID, one.ID, made, err)
	}
	if got, there, err := r.Look(t.Context(), key); !there || err != nil || got.ID != one.ID {
		t.Errorf("looked: %+v %v %v", got, there, err)
	}
	for _, bad := range []string{"", "k", "agent:main:x:dm:../etc"} {
		if _, _, err := r.Conversation(t.Context(), sessiondb.NewSession{Key: bad}); err == nil {
			t.Errorf("%q leads somewhere", bad)
		}
		if _, _, err := r.Look(t.Context(), bad); err == nil {
			t.Errorf("%q can be looked up", bad)
		}
	}
}
