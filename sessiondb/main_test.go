package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"gatewayd/internal/peer"
)

// The tests start this binary again as another process that holds leases and appends rows, to be killed.
func TestMain(m *testing.M) {
	switch os.Getenv("SESSIONDB_CHILD") {
	case "hold":
		childHold()
	case "append":
		childAppend()
	case "steps":
		childSteps()
	case "wait":
		childWait()
	case "rebuild":
		childRebuild()
	case "freeze":
		childFreeze()
	case "replay":
		childReplay()
	default:
		goleak.VerifyTestMain(m)
	}
}

func childStore() *Store {
	s, err := Open(context.Background(), Options{Path: os.Getenv("SESSIONDB_PATH"), Journal: journalOf(os.Getenv("SESSIONDB_PATH")), Backups: os.Getenv("SESSIONDB_BACKUPS"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	return s
}

// childHold takes the turn lease, says so, and waits for its end.
func childHold() {
	s := childStore()
	h, _ := SelfHolder("child turn")
	if _, err := s.TryTurn(context.Background(), os.Getenv("SESSIONDB_SESSION"), h, 0); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("held")
	select {}
}

// childAppend appends pairs of rows as fast as it can and says each pair that was acknowledged.
func childAppend() {
	s := childStore()
	ctx := context.Background()
	go s.RunIndexer(ctx)
	h, _ := SelfHolder("child")
	for turn := 0; ; turn++ {
		made, err := s.CreateSession(ctx, NewSession{Key: fmt.Sprintf("key %d", turn%3)})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		l, err := s.AcquireTurn(ctx, made.ID, h, 0)
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		for i := range 5 {
			token := fmt.Sprintf("TK%dx%dx%d", os.Getpid(), turn, i)
			if _, err := s.Append(ctx, l, []NewMessage{{Role: "user", Content: token + " asked"}, {Role: "assistant", Content: token + " answered"}}); err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
			fmt.Println("ack", token)
		}
		s.Release(ctx, l)
		if turn%4 == 3 { // so that some kills come in the middle of a rebuild
			s.markStale(ctx, turn/4%2, errors.New("test"))
		}
	}
}

// childReplay brings the spool back and waits to be killed.
func childReplay() {
	s := childStore()
	if _, err := s.Replay(context.Background(), false); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	select {}
}

// startChild starts another process on the same file.
func startChild(t *testing.T, what, path, session string, env ...string) *peer.Process {
	t.Helper()
	return peer.Self(t, append([]string{"SESSIONDB_CHILD=" + what, "SESSIONDB_PATH=" + path, "SESSIONDB_SESSION=" + session}, env...)...)
}
