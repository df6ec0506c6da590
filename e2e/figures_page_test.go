package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

// pageFigures measures a board of 2,000 cards as a person waits for it: from the click until the browser has painted, of a daemon that
// serves it; and the bytes of the page.
func pageFigures(t *testing.T) []figure {
	home := newHome(t, "kanban:\n  dispatch: true\n")
	path := filepath.Join(home, "kanban.db")
	board := figureBoard(t, path)
	fillPage(t, board, 2000)
	if err := board.Close(); err != nil {
		t.Fatal(err)
	}
	d := start(t, home)
	size := d.pageSize("/boards/default")
	rows := []figure{below("page of a board of 2,000 cards", float64(size)/1e3, "kB", 150)}
	if painted := d.painted("/boards/default", 7); len(painted) > 0 {
		rows = append(rows, below("board of 2,000 cards painted in a browser", median(painted), "ms", 1000))
	}
	return rows
}

// fillPage writes cards of every column that a person may look at.
func fillPage(t *testing.T, b *kanban.Board, n int) {
	t.Helper()
	columns := []string{"triage", "todo", "scheduled", "ready", "blocked", "review", "done"}
	err := b.File().Write(t.Context(), sqlite.Op{Label: "fill", Do: func(tx *sqlite.Tx) error {
		for i := range n {
			_, err := tx.Exec("INSERT INTO tasks (id, title, status, assignee, tenant, priority, created_at) VALUES (?, ?, ?, 'ana', 'maps', ?, 1700000000)",
				fmt.Sprintf("t_%08x", i), fmt.Sprintf("%d: measure the cache of the planner and write down what it costs", i), columns[i%len(columns)], i%5)
			if err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func (d *daemon) pageSize(path string) int {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.base+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %d, %v", path, resp.StatusCode, err)
	}
	return len(body)
}

// painted gives the milliseconds from the start of a navigation to the largest thing painted, for so many visits after a first one. Without
// a browser there are none.
func (d *daemon) painted(path string, visits int) (times []float64) {
	d.t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		d.t.Log("SKIPPED: chromium is not installed, so nothing is painted")
		return nil
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"))
	if os.Geteuid() == 0 {
		flags = append(flags, chromedp.NoSandbox)
	}
	alloc, free := chromedp.NewExecAllocator(context.Background(), flags...)
	defer free()
	tab, closeTab := chromedp.NewContext(alloc)
	defer closeTab()
	if err := chromedp.Do(tab); err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tab, 2*time.Minute)
	defer cancel()
	key := network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Bearer " + d.key}}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		d.t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.SetExtraHTTPHeaders, key); err != nil {
		d.t.Fatal(err)
	}
	const largest = `new Promise(done => new PerformanceObserver(list => done(Math.max(...list.getEntries().map(e => e.startTime)))).observe({type: "largest-contentful-paint", buffered: true}))`
	for i := range visits + 1 {
		if err := chromedp.Do(ctx, chromedp.Navigate(d.base+path)); err != nil {
			d.t.Fatal(err)
		}
		ms, err := chromedp.Run(ctx, chromedp.Evaluate[float64](largest, chromedp.EvalAwaitPromise))
		if err != nil {
			d.t.Fatal(err)
		}
		if i > 0 {
			times = append(times, ms)
		}
	}
	return times
}
