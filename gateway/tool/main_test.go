package tool

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"
	"time"

	"gatewayd/reaper"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	reaper.Main()
	if dir := os.Getenv("GATEWAYD_TEST_SWARM"); dir != "" {
		swarm(dir)
	}
	if role := os.Getenv(mcpRole); role != "" {
		os.Exit(mcpMain(role))
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// newReaper runs a reaper for the length of the test.
func newReaper(t *testing.T) *reaper.Reaper {
	t.Helper()
	r, err := reaper.New(reaper.Options{Dir: t.TempDir(), Spares: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func args(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

var cli = Policy{Context: "cli", Terminal: Allow}
