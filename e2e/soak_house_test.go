package e2e

import (
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A house in use: so many boards and chats, five turns and a card in a second. Each card is a worker.
const (
	soakBoards = 100
	soakChats  = 20
	turnEvery  = time.Second / 5
	cardEvery  = time.Second
)

// A daemon with a hundred boards, twenty chats and small workers all the time: memory, descriptors, goroutines and the -wal
// files stay where they are, every turn is answered and every card done once.
func TestSoakOfAHouse(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("only with -args -soak 60m (make soak)")
	}
	home := newHome(t, allowTerminal+"kanban:\n  max_in_progress: 4\n  lanes:\n    small: {preset: command, argv: [sh, -c, 'echo done']}\n")
	makeBoards(t, home, soakBoards)
	d := start(t, home)
	d.until("every board is served", func() bool { return d.boardsServed() >= soakBoards })

	stop := make(chan struct{})
	turns, cards := time.NewTicker(turnEvery), time.NewTicker(cardEvery)
	defer turns.Stop()
	defer cards.Stop()
	var load sync.WaitGroup
	var said [soakChats]int
	for i := range soakChats {
		load.Go(func() {
			said[i] = repeat(t, turns, stop, func(n int) error {
				return d.say(fmt.Sprintf("chat-%d-%d", i, n/100), fmt.Sprintf("$ echo turn %d", n), nil)
			})
		})
	}
	made := 0
	load.Go(func() {
		made = repeat(t, cards, stop, func(n int) error {
			card := map[string]string{"title": fmt.Sprint("card ", n), "assignee": "small"}
			return d.try(http.MethodPost, fmt.Sprintf("/api/boards/board-%03d/tasks", n%soakBoards), card, nil)
		})
	})
	wals := gauge{"-wal files, MiB", func(map[string]float64) float64 { return walSize(t, home) }, 24}
	own, _ := d.watch(t, "", append(gauges, wals))
	close(stop)
	load.Wait()
	weigh(t, append(gauges, wals), own)
	d.until("no worker runs", func() bool { return d.metrics(t)["gatewayd_dispatch_workers"] == 0 })
	d.stop()

	turnsSaid := 0
	for _, n := range said {
		turnsSaid += n
	}
	t.Logf("%d turns, %d cards", turnsSaid, made)
	if done := cardsDone(t, home); done != made {
		t.Errorf("%d of %d cards are done", done, made)
	}
}

// repeat does something at each tick until it is stopped, and tells how often.
func repeat(t *testing.T, tick *time.Ticker, stop chan struct{}, do func(n int) error) (n int) {
	for ; ; n++ {
		select {
		case <-stop:
			return n
		case <-tick.C:
		}
		if err := do(n); err != nil {
			t.Errorf("number %d: %v", n, err)
			return n
		}
	}
}

// walSize is the size of all -wal files below the home, in MiB.
func walSize(t *testing.T, home string) float64 {
	var sum int64
	err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "-wal") {
			return nil // a worker's directory that went meanwhile
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return float64(sum) / (1 << 20)
}

// cardsDone counts over all boards, each of which ran its cards once.
func cardsDone(t *testing.T, home string) (n int) {
	for i := range soakBoards {
		b := figureBoard(t, filepath.Join(home, "kanban", "boards", fmt.Sprintf("board-%03d", i), "kanban.db"))
		stats, err := b.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += stats.ByStatus["done"]
	}
	return n
}
