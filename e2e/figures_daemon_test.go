package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/internal/procfs"
	"gatewayd/internal/vigil"
	"gatewayd/kanban"
	"gatewayd/reaper"
)

// coldStartFigures measures from the start of the process until it answers, and with 100 boards until each is served.
func coldStartFigures(t *testing.T) []figure {
	home := newHome(t, "model: {provider: offline}\n")
	var few, many []float64
	for range 7 {
		began := time.Now()
		d := startQuick(t, home)
		few = append(few, float64(time.Since(began).Microseconds())/1e3)
		d.stop()
	}
	makeBoards(t, home, 100)
	for range 5 {
		began := time.Now()
		d := startQuick(t, home)
		d.until("every board is served", func() bool { return d.boardsServed() >= 100 })
		many = append(many, float64(time.Since(began).Microseconds())/1e3)
		d.stop()
	}
	return []figure{
		below("cold start to ready", median(few), "ms", 100),
		below("cold start to 100 boards served", median(many), "ms", 600),
	}
}

// startQuick is start with a look every half millisecond.
func startQuick(t *testing.T, home string) *daemon {
	t.Helper()
	d := launch(t, home)
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for range tick.C {
		holder, held, err := config.HolderOf(home)
		if err != nil || !held || holder.PID != d.child.PID() || holder.Addr == "" {
			continue
		}
		resp, err := http.Get("http://" + holder.Addr + "/health")
		if err != nil {
			continue
		}
		resp.Body.Close()
		key, err := config.ReadAPIKey(home)
		if err != nil {
			t.Fatal(err)
		}
		d.base, d.key = "http://"+holder.Addr, key.Reveal()
		return d
	}
	return nil
}

func (d *daemon) boardsServed() (n int) {
	var status struct {
		Dispatcher struct{ Boards []struct{ State string } }
	}
	if d.try(http.MethodGet, "/api/status", nil, &status) != nil {
		return 0
	}
	for _, b := range status.Dispatcher.Boards {
		if b.State == "ok" {
			n++
		}
	}
	return n
}

func makeBoards(t *testing.T, home string, n int) {
	t.Helper()
	root, err := kanban.OpenRoot(home)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for i := range n {
		info, err := root.Create(kanban.Slug(fmt.Sprintf("board-%03d", i)), kanban.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := kanban.Open(t.Context(), kanban.Options{Path: info.Path, Slug: info.Slug, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// idleWindow is how long the idle daemon is watched. An hour is for the soak, not for this table.
const idleWindow = 60 * time.Second

// idleFigures watches a daemon with 100 boards that has nothing to do.
func idleFigures(t *testing.T) []figure {
	home := newHome(t, "model: {provider: offline}\n")
	makeBoards(t, home, 100)
	d := start(t, home)
	defer d.stop()
	d.until("every board is served", func() bool { return d.boardsServed() >= 100 })
	pid := d.child.PID()
	cpu := func() time.Duration {
		used, err := procfs.CPUTime(pid)
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	rss := func() float64 {
		bytes, err := procfs.RSS(pid)
		if err != nil {
			t.Fatal(err)
		}
		return float64(bytes) / (1 << 20)
	}
	vigil.LetPass(5*time.Second, "the start's own work is not idling")
	used, memory := cpu(), rss()
	vigil.LetPass(idleWindow, "the daemon is measured while it idles")
	share := 100 * (cpu() - used).Seconds() / idleWindow.Seconds()
	grown := (rss() - memory) * 1024
	return []figure{
		below("idle, 100 boards, CPU", share, "% of a core", 1.2),
		below("idle, 100 boards, memory", rss(), "MiB", 60),
		below(fmt.Sprintf("idle, memory grown in %v", idleWindow), grown, "KiB", 1024),
	}
}

// keeperFigure compares a start under the warm keeper with a bare run of a program that does nothing, in turns.
func keeperFigure(t *testing.T) []figure {
	r, err := reaper.New(reaper.Options{Dir: t.TempDir(), Exe: program})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	var kept, bare []float64
	for i := range 60 {
		bare = append(bare, micros(t, func() error {
			return exec.Command("/bin/true").Run()
		})/1e3)
		var child *reaper.Process
		kept = append(kept, micros(t, func() (err error) {
			child, err = r.Start(t.Context(), reaper.Spec{ID: fmt.Sprintf("figure-%d", i), Argv: []string{"/bin/true"}, Lifetime: reaper.EndsWithDaemon, Output: io.Discard})
			return err
		})/1e3)
		<-child.Done()
		vigil.LetPass(60*time.Millisecond, "a spare warms up, as between two commands of a turn")
	}
	return []figure{{
		Name: "warm keeper: from the call until the child runs", Value: median(kept), Unit: "ms", Limit: fmt.Sprintf("bare run of /bin/true: %s ms", short(median(bare))),
		Ratio: median(kept) / median(bare), Target: "≤ 1.5 × (1.1 tried)", Met: median(kept)/median(bare) <= 1.5,
	}}
}

func binaryFigure(t *testing.T) []figure {
	path := filepath.Join(t.TempDir(), "gatewayd")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../cmd/gatewayd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return []figure{below("binary, stripped", float64(info.Size())/1e6, "MB", 24)}
}
