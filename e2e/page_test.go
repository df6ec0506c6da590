package e2e

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/vigil"
)

// hasBrowser says so where there is none: what is not tried is not proven.
func hasBrowser(t *testing.T) bool {
	t.Helper()
	_, err := exec.LookPath("chromium")
	if err != nil {
		t.Log("SKIPPED: chromium is not installed, so the page is not tried in a browser")
	}
	return err == nil
}

// visitor is a person with a browser at a daemon's page.
type visitor struct {
	context.Context
	t    *testing.T
	base string
}

// visit opens the page and logs in by pasting the key.
func (d *daemon) visit() visitor {
	d.t.Helper()
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.Flag("disable-dev-shm-usage", true))
	if os.Geteuid() == 0 {
		flags = append(flags, chromedp.NoSandbox)
	}
	alloc, free := chromedp.NewExecAllocator(context.Background(), flags...)
	ctx, closeTab := chromedp.NewContext(alloc)
	ctx, late := context.WithTimeout(ctx, 3*time.Minute)
	d.t.Cleanup(func() { late(); closeTab(); free() })
	v := visitor{ctx, d.t, d.base}
	v.do(chromedp.Navigate(d.base + "/chat"))
	v.until(`location.pathname === "/login" && document.getElementById("key")`)
	v.do(chromedp.SendKeys("#key", d.key+"\r"))
	v.until(`location.pathname === "/chat"`)
	return v
}

func (v visitor) do(steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	if err := chromedp.Do(v, steps...); err != nil {
		v.t.Fatal(err)
	}
}

func (v visitor) tell(expression string) string {
	v.t.Helper()
	got, err := chromedp.Run(v, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		v.t.Fatal(err)
	}
	return got
}

// whatItIsAt is what a page shows and what it has fetched: a request that is not there has not been answered.
const whatItIsAt = `location.pathname + ' ' + document.body.innerText + '\n' + JSON.stringify({...document.body.dataset}) + '\n' +
	performance.getEntriesByType('resource').map(e => [Math.round(e.startTime), Math.round(e.responseEnd), e.responseStatus, e.name].join(' ')).join('\n')`

// until waits for an expression of the page to be true, over any reload.
func (v visitor) until(expression string) {
	v.t.Helper()
	yes, err := false, error(nil)
	if !vigil.Until(patience, v.Done(), func() bool {
		yes, err = chromedp.Run(v, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && yes
	}) {
		shown, _ := chromedp.Run(v, chromedp.Evaluate[string](whatItIsAt))
		v.t.Fatalf("the page never has %s: %v\n%s", expression, err, shown)
	}
}

// says sends a message in the conversation that is open.
func (v visitor) says(text string) {
	v.t.Helper()
	v.do(chromedp.Focus("#text"), chromedp.KeyEvent(text+"\r"))
}

const (
	shownRows = `!document.querySelector("#rows [aria-busy]")`
	lastWords = `[...document.querySelectorAll("#rows .answer")].pop().innerText`
)

func shows(text string) string {
	return `document.getElementById("rows").innerText.includes("` + text + `")`
}

// page has a person ask in the browser, who reads the answer when it is stored.
func (w *ways) page(text string) string {
	v := w.visit()
	v.says(text)
	v.until(`location.pathname.startsWith("/chat/web-") && ` + shownRows + ` && document.querySelector("#rows .answer .text") && ` + shows(agreed))
	return v.tell(lastWords)
}

// host is a model for a whole visit: it cleans by a command, hangs, and answers slowly while it is held.
type host struct {
	held atomic.Bool
	gate chan struct{}
}

func (h *host) each(r fakellm.Request) fakellm.Response {
	sent, text := messagesOf(r), lastUser(r)
	after := len(sent) > 0 && sent[len(sent)-1].Role == "tool"
	switch {
	case strings.Contains(string(r.Body), `"kanban_complete"`):
		return fakellm.ToolCall{Name: "kanban_complete", Args: map[string]any{"summary": agreed}}
	case strings.HasPrefix(text, "clean") && !after:
		return run("rm -rf build")
	case strings.HasPrefix(text, "hang"):
		return fakellm.Hang{}
	}
	answer := fakellm.Text{Text: "Slowly but **surely**, and all of it."}
	if h.held.Load() {
		answer.Gate = h.gate
	}
	return answer
}

func (h *host) let(pieces int) {
	for range pieces {
		h.gate <- struct{}{}
	}
}

// A person who has nothing but a browser and the key does everything there is to do, through a kill of the daemon.
func TestAVisitToThePage(t *testing.T) {
	t.Parallel()
	if !hasBrowser(t) {
		t.SkipNow()
	}
	h := &host{gate: make(chan struct{})}
	model := fakellm.Start(fakellm.Options{Each: h.each})
	t.Cleanup(model.Close)
	home := newHome(t, "model: {base_url: \""+model.URL()+"\", name: fake-model}\ntools: {terminal: ask, approval_timeout: 5m}\nkanban: {lanes: {helper: {preset: agent}}}\n")
	d := start(t, home)
	v := d.visit()
	cardByPage(v)
	approvedByPage(v)
	stoppedAndReloaded(v, h)
	killedInTheMiddle(d, v, h)
	v.do(chromedp.Click(".out button"))
	v.until(`location.pathname === "/login"`)
	v.do(chromedp.Navigate(v.base + "/status"))
	v.until(`location.pathname === "/login"`)
}

// cardByPage makes a board and a card in it, and sees the card done without looking again.
func cardByPage(v visitor) {
	v.do(chromedp.Navigate(v.base+"/"), chromedp.Click(`[data-open=new]`), chromedp.SendKeys(`#new input[name=slug]`, "visit\r"))
	v.until(`location.pathname === "/boards/visit" && document.body.dataset.live`)
	v.do(chromedp.Click(`[data-open=new]`), chromedp.SendKeys(`#new input[name=assignee]`, "helper"), chromedp.SendKeys(`#new input[name=title]`, "A card from the page\r"))
	v.until(`document.getElementById("col-done")?.innerText.includes("A card from the page")`)
}

// approvedByPage lets a command run that waits for a yes.
func approvedByPage(v visitor) {
	v.do(chromedp.Navigate(v.base + "/chat"))
	v.says("clean up")
	v.until(`location.pathname.startsWith("/chat/web-") && document.querySelector(".ask")?.innerText.includes("rm -rf build") && document.getElementById("said").innerText.includes("asks")`)
	v.do(chromedp.Click(".ask button[value=once]"))
	v.until(`!document.querySelector(".ask") && ` + shownRows + ` && document.querySelector("#rows .answer strong") && ` + shows("done"))
}

// stoppedAndReloaded stops a turn that hangs, and reloads in the middle of the next.
func stoppedAndReloaded(v visitor, h *host) {
	v.says("hang on")
	v.until(`document.body.classList.contains("running")`)
	v.do(chromedp.Click("#stop"))
	v.until(shownRows + ` && document.querySelector("#rows .note")`)
	h.held.Store(true)
	v.says("slowly")
	h.let(2)
	v.until(shows("Slowly"))
	v.do(chromedp.Reload())
	v.until(shows("Slowly") + ` && document.body.classList.contains("running")`)
	h.held.Store(false)
	h.let(3)
	v.until(shownRows + ` && [...document.querySelectorAll("#rows .turn")].pop().querySelectorAll(".answer").length === 1 && document.querySelectorAll("#rows .answer strong").length === 2`)
}

// killedInTheMiddle kills the daemon while an answer comes. The page says so, and when there is a daemon again, it shows by itself how
// the turn went on.
func killedInTheMiddle(d *daemon, v visitor, h *host) {
	h.held.Store(true)
	v.says("once more")
	h.let(1)
	v.until(shows("once more") + ` && document.body.classList.contains("running")`)
	_ = d.child.Signal(syscall.SIGKILL)
	d.end()
	v.until(`!document.getElementById("line").hidden`)
	h.held.Store(false)
	again := launchIn(d.t, d.home, d.home, nil, "--addr", strings.TrimPrefix(d.base, "http://"))
	again.ready()
	v.until(`document.getElementById("line").hidden && ` + shownRows + ` && document.querySelectorAll("#rows .answer strong").length === 3 && ` + shows("gatewayd was restarted"))
	if at, err := url.Parse(v.tell("location.href")); err != nil || !strings.HasPrefix(at.Path, "/chat/web-") {
		d.t.Errorf("the page went to %s, %v", at, err)
	}
	d.t.Cleanup(func() {
		if !d.t.Failed() {
			again.stop()
		}
	})
}
