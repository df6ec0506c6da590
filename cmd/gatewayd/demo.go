package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gatewayd/config"
	"gatewayd/internal/problem"
	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

// demoBound is how long the demo may take from its start; a claim that is not true by then is a failed claim.
const demoBound = 30 * time.Second

func (c *cli) demoVerb() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole product on this machine in half a minute: cards, workers, a chat, a kill -9, a restart",
		Args:  exactly(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), c.std, keep) },
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the temporary home afterwards")
	return cmd
}

// demo drives a real daemon, a child of this process, as a person and a supervisor would: by HTTP and by signals.
type demo struct {
	*client
	out    io.Writer
	home   string
	exe    string
	log    *os.File
	child  *reaper.Child
	start  time.Time
	claims []claim
	counts []count
	order  map[string]int // cards by when they were created

	acked    []demoRow       // rows whose acknowledgement was seen before the kill
	hanging  procfs.Identity // the command that ran when the daemon was killed
	survivor string          // the card whose worker ran when the daemon was killed
	living   int             // processes of this home before the kill
}

// claim is one thing that the demo promised to show.
type claim struct {
	text string
	ok   bool
}

// count is one number of the summary.
type count struct {
	n    int
	what string
}

func runDemo(ctx context.Context, std stdio, keep bool) error {
	ctx, cancel := context.WithTimeout(ctx, demoBound)
	defer cancel()
	ctx, deaf := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer deaf()
	d := &demo{client: newClient("", ""), out: std.out, start: time.Now(), order: map[string]int{}}
	err := d.play(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		d.cleanup(keep)
		return &problem.Error{Kind: problem.Interrupted, Thing: "the demo", What: "was stopped", Fate: "its daemon has ended"}
	}
	if err != nil {
		d.claim(false, "%v", err)
		d.showLog()
	}
	d.cleanup(keep)
	return d.summary()
}

// play is the story, in order. The first step that cannot go on ends it.
func (d *demo) play(ctx context.Context) error {
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"a home with the offline model", d.makeHome},
		{"the daemon starts", d.startDaemon},
		{"cards are claimed, run, retried, blocked by the breaker, completed", d.playBoard},
		{"a question that makes the model call the terminal", d.ask},
		{"kill -9 in the middle of a second turn", d.killMidTurn},
		{"the daemon starts again", d.startDaemon},
		{"every acknowledged row is there exactly once", d.compareRows},
		{"the worker that outlived the daemon is found again", d.checkSurvivor},
		{"a clean stop", d.stopDaemon},
		{"the files afterwards", d.checkFiles},
	} {
		fmt.Fprintf(d.out, "\n── %s\n", step.title)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}

// say prints one plain line of the story.
func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, "   "+format+"\n", args...) }

// claim records whether something promised is true, and says so.
func (d *demo) claim(ok bool, format string, args ...any) {
	c := claim{text: fmt.Sprintf(format, args...), ok: ok}
	d.claims = append(d.claims, c)
	fmt.Fprintf(d.out, "   %s %s\n", mark(ok), c.text)
}

// counted adds a number to the summary.
func (d *demo) counted(n int, what string) { d.counts = append(d.counts, count{n, what}) }

func mark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

// demoConfig names the lanes of the story: three that work, one that crashes, one that takes longer than the daemon lives.
const demoConfig = `model:
  provider: offline
tools:
  terminal: allow
kanban:
  failure_limit: 2
  lanes:
    design: {preset: command, argv: [sh, -c, 'echo drawing; sleep 0.8; echo drawn']}
    build:  {preset: command, argv: [sh, -c, 'echo building; sleep 0.8; echo built']}
    ship:   {preset: command, argv: [sh, -c, 'echo shipped']}
    crash:  {preset: command, argv: [sh, -c, 'echo about to crash; kill -SEGV $$']}
    long:   {preset: command, argv: [sh, -c, 'while [ ! -e "$DEMO_GATE" ]; do sleep 0.1; done; echo outlived'], env: {DEMO_GATE: %q}}
`

func (d *demo) makeHome(context.Context) (err error) {
	if d.exe, err = os.Executable(); err != nil {
		return err
	}
	if _, err = config.Temporary(); err != nil {
		return err
	}
	if d.home, err = os.MkdirTemp("", "gatewayd-demo-"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.home, "config.yaml"), fmt.Appendf(nil, demoConfig, d.gate()), 0o600); err != nil {
		return err
	}
	d.log, err = os.OpenFile(filepath.Join(d.home, "daemon.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	d.say("%s", d.home)
	return err
}

// gate is the file whose appearance lets the long worker end.
func (d *demo) gate() string { return filepath.Join(d.home, "gate") }

// startDaemon starts the program that people run, on a free port, with an environment that names no model.
func (d *demo) startDaemon(ctx context.Context) error {
	began := time.Now()
	env := []string{"PATH=" + demoPath, "HOME=" + d.home}
	child, err := reaper.StartChild([]string{d.exe, "--home", d.home, "--addr", "127.0.0.1:0"}, env, d.home, d.log, d.log)
	if err != nil {
		return err
	}
	d.child = child
	if err := d.untilReady(ctx); err != nil {
		return err
	}
	d.claim(true, "ready %v after the start, pid %d, %s", time.Since(began).Round(time.Millisecond), child.PID(), d.base)
	return nil
}

// demoPath is where the demo's workers find a shell.
const demoPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// untilReady waits until the daemon that answers is the child that was started.
func (d *demo) untilReady(ctx context.Context) error {
	return d.until(ctx, func() (bool, error) {
		holder, held, err := config.HolderOf(d.home)
		if err != nil || !held || holder.PID != d.child.PID() || holder.Addr == "" {
			return false, err
		}
		key, err := config.ReadAPIKey(d.home)
		if err != nil {
			return false, nil
		}
		d.client = newClient("http://"+holder.Addr, key.Reveal())
		var health struct{ PID int }
		err = d.call(ctx, http.MethodGet, "/health/detailed", nil, &health)
		return err == nil && health.PID == d.child.PID(), nil
	})
}

// until asks again every 20 ms. A daemon that has gone ends the waiting at once.
func (d *demo) until(ctx context.Context, is func() (bool, error)) error {
	return poll(ctx, d.child.Done(), is)
}

// poll asks every 20 ms until the answer is yes, an error, the end of ctx or gone.
func poll(ctx context.Context, gone <-chan struct{}, is func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("not in time")
		case <-gone:
			return errors.New("the daemon ended")
		case <-tick.C:
		}
	}
}

func (d *demo) stopDaemon(context.Context) error {
	began := time.Now()
	if err := d.child.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	code, sig, err := d.child.Wait()
	d.claim(err == nil && code == 0 && sig == 0, "SIGTERM: exit code %d after %v", code, time.Since(began).Round(time.Millisecond))
	d.child = nil
	left, err := d.processes()
	d.counted(len(left), "processes left behind")
	d.claim(err == nil && len(left) == 0, "no process of this home is left (%d found; %d before the kill)", len(left), d.living)
	return err
}

// processes finds everything that was started for this home, whoever its parent is by now.
func (d *demo) processes() ([]int, error) { return procfs.Tagged("HOME", d.home) }

// summary prints what was proved; a claim that failed makes the demo fail.
func (d *demo) summary() error {
	failed := 0
	for _, c := range d.claims {
		if !c.ok {
			failed++
		}
	}
	fmt.Fprintln(d.out, "\n── what was proved")
	for _, c := range d.counts {
		fmt.Fprintf(d.out, "   %4d %s\n", c.n, c.what)
	}
	fmt.Fprintf(d.out, "\n%d of %d claims true in %.1f s\n", len(d.claims)-failed, len(d.claims), time.Since(d.start).Seconds())
	for _, c := range d.claims {
		if !c.ok {
			fmt.Fprintf(d.out, "%s FAILED: %s\n", mark(false), c.text)
		}
	}
	if failed > 0 || len(d.claims) == 0 {
		return codeError(exitFailed)
	}
	return nil
}

// cleanup leaves nothing behind, whatever happened.
func (d *demo) cleanup(keep bool) {
	if d.child != nil {
		_ = d.child.Signal(syscall.SIGKILL)
		_, _, _ = d.child.Wait()
	}
	if d.home == "" {
		return
	}
	_ = os.WriteFile(d.gate(), nil, 0o600) // a worker that still waits may end
	bound, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = poll(bound, nil, func() (bool, error) { // what still runs would write into the home that goes
		left, err := d.processes()
		return len(left) == 0, err
	})
	if d.log != nil {
		d.log.Close()
	}
	if keep {
		fmt.Fprintf(d.out, "\nkept: %s\n", d.home)
		return
	}
	_ = os.RemoveAll(d.home)
}

// showLog prints the end of the daemon's log when something went wrong.
func (d *demo) showLog() {
	if d.log == nil {
		return
	}
	raw, _ := os.ReadFile(d.log.Name())
	if len(raw) > 4000 {
		raw = raw[len(raw)-4000:]
	}
	fmt.Fprintf(d.out, "\nthe daemon's log ends with:\n%s\n", raw)
}
