package gateway

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/sqlite/steps"
	"gatewayd/sessiondb"
)

// A process that folds the session s1 once, by hand or after a turn of its own, and says so. With a statement to stop at it says
// that instead, and stays there.
const (
	foldRole     = "fold"
	howVariable  = "GATEWAYD_TEST_FOLD"
	stopVariable = "GATEWAYD_TEST_STOP"
)

func childFold(dir, url string) int {
	if at := os.Getenv(stopVariable); at != "" {
		steps.Each(func(sql string) {
			if strings.HasPrefix(sql, at) {
				fmt.Println("at", sql)
				select {}
			}
		})
	}
	store, err := sessiondb.Open(context.Background(), storeOptions(dir+"/state.db"))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	opts := Options{
		Store: store, Log: quiet(), Grace: -1, Tools: tools(echo("look")), Model: provider.New(provider.Options{BaseURL: url, Name: fakellm.Model, ContextLength: 12_000}),
		Compaction: CompactionOptions{Rules: fewRules()},
	}
	opts.Compaction.Rules.ProtectFirst = 0
	rolled := os.Getenv(howVariable) == "rolling"
	opts.Compaction.Rolling = rolled
	g := New(opts)
	if rolled {
		r, err := g.Say(context.Background(), Say{Session: "s1", Source: SourceCLI, Text: "TA4Q please"}, nil)
		fmt.Println("done", r.Completed, err)
	} else {
		c, err := g.Compress(context.Background(), "s1", Compress{Here: 1})
		fmt.Println("done", c.Status, err)
	}
	select {}
}

// A process that is killed while a summary is written, or inside the transaction that folds, leaves the conversation as it was; one
// that is killed after it, as it is then. The next process takes the dead one's lease over and folds.
func TestAKilledCompactionIsDoneOrNotDone(t *testing.T) {
	for _, c := range []struct {
		name, how, stop string // stop: a statement; "": in the middle of the summary
		done            bool
	}{
		{"while the summary is written", "hand", "", false},
		{"while the rolling summary is written", "rolling", "", false},
		{"after the rows were retired", "hand", "INSERT INTO folds", false},
		{"before the commit", "hand", "UPDATE sessions SET message_count", false},
		{"when it is done", "hand", "UPDATE compactions nothing", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			journals(t, func(t *testing.T, mode string) { killCompaction(t, mode, c.how, c.stop, c.done) })
		})
	}
}

func killCompaction(t *testing.T, mode, how, stop string, done bool) {
	f := newFoldHouseAt(t, 12_000, mode, nil)
	f.path = strings.TrimSuffix(f.path, "/state.db")
	dir := f.path
	f.path += "/state.db"
	for n := 1; n <= 3; n++ {
		f.ask1(n)
	}
	f.stop()
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	asked, gate := make(chan struct{}, 1), make(chan struct{})
	if stop == "" {
		f.answers("aux", held(asked, gate))
	}
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	child := startChild(t, dir, f.llm.URL(), roleVariable+"="+foldRole, howVariable+"="+how, stopVariable+"="+stop)
	if stop == "" {
		<-asked
	} else if line, _ := child.Line(); strings.HasPrefix(line, "at ") == done || strings.Contains(line, "error") {
		t.Fatal(line)
	}
	f.store = openStore(t, f.path)
	before := f.census()
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	child.Kill()
	f.store = openStore(t, f.path)
	if after := f.census(); !slices.Equal(before, after) {
		t.Errorf("the kill changed rows:\n%s\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if folded := strings.Contains(shape(f.rows("s1")), "summary") || strings.Contains(shape(f.rows("s1")), "model_only"); folded != done {
		t.Errorf("folded: %v", folded)
	}
	questions := 3
	if how == "rolling" {
		questions = 4
	}
	f.books(questions)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	open()
	f.answers("aux", nil)
	f.begin(12_000, nil)
	if done {
		return
	}
	if got, err := f.Compress(soon(t), "s1", Compress{Here: 1}); err != nil || got.Status != CompressDone {
		t.Fatalf("the next process: %+v, %v", got, err)
	}
	f.books(questions)
}

// Two processes that compact one conversation at once do it once; the other one is told that it was busy, or found it done.
func TestTwoProcessesCompactOnce(t *testing.T) {
	journals(t, func(t *testing.T, mode string) {
		f := newFoldHouseAt(t, 12_000, mode, nil)
		for n := 1; n <= 3; n++ {
			f.ask1(n)
		}
		asked, gate := make(chan struct{}, 1), make(chan struct{})
		f.answers("aux", held(asked, gate))
		child := startChild(t, strings.TrimSuffix(f.path, "/state.db"), f.llm.URL(), roleVariable+"="+foldRole, howVariable+"=hand")
		<-asked
		if got, err := f.Compress(soon(t), "s1", Compress{Here: 1}); err != nil || got.Status != CompressLockSkipped {
			t.Errorf("beside the other process: %+v, %v", got, err)
		}
		close(gate)
		if line, _ := child.Line(); line != "done compressed <nil>" {
			t.Error(line)
		}
		if got, err := f.Compress(soon(t), "s1", Compress{Here: 1}); err != nil || got.Status != CompressNothing {
			t.Errorf("after it: %+v, %v", got, err)
		}
		if n := f.auxes(); n != 1 {
			t.Errorf("%d summaries", n)
		}
		f.books(3)
	})
}
