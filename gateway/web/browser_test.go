package web

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"gatewayd/internal/vigil"
)

// theBrowser is one for all tests: it takes a second to start. Tests run side by side in it, each in a window of its own; cookies they share.
var theBrowser struct {
	sync.Once
	ctx  context.Context
	stop func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if theBrowser.stop != nil {
		theBrowser.stop()
	}
	os.Exit(code)
}

// flags start a browser that does what the tests ask of it and nothing for itself. What drops down from its address bar is a page too,
// which without them is kept ready in each window and works as much as the page under test.
func flags() []chromedp.ExecAllocatorOption {
	all := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup"))
	if os.Geteuid() == 0 {
		all = append(all, chromedp.NoSandbox)
	}
	return all
}

// newTab opens a page of its own in the browser, with the given size and colours; width 0 is a workstation's.
func newTab(t *testing.T, width, height int64, colours string) context.Context {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("SKIPPED: chromium is not installed, so the page is not tried in a browser")
	}
	theBrowser.Do(func() {
		alloc, free := chromedp.NewExecAllocator(context.Background(), flags()...)
		ctx, cancel := chromedp.NewContext(alloc)
		theBrowser.ctx, theBrowser.stop = ctx, func() { cancel(); free() }
		if err := chromedp.Do(ctx); err != nil {
			t.Fatal(err)
		}
	})
	tab, closeTab := chromedp.NewContext(theBrowser.ctx)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(tab, 90*time.Second)
	t.Cleanup(cancel)
	if width == 0 {
		width, height = 1280, 800
	}
	for _, err := range []error{
		call(ctx, network.Enable, network.EnableParams{}),
		call(ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Bearer " + testKey}}),
		call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600}),
		dress(ctx, colours),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return ctx
}

// dress makes the browser one of a person who likes it light or dark, and nothing that moves.
func dress(ctx context.Context, colours string) error {
	return call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
}

func call[P any](ctx context.Context, command cdp.Command[P, cdp.Empty], params P) error {
	_, err := chromedp.Call(ctx, command, params)
	return err
}

const testKey = "k-test"

// window is what a person has in front of them.
type window struct {
	context.Context
	t *testing.T
}

func (w window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	for _, step := range steps {
		var err error
		vigil.Until(30*time.Second, w.Done(), func() bool { err = chromedp.Do(w, step); return err == nil || !drawnAnew(err) })
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// drawnAnew reports that the element which a step had found was replaced by a new one before anything was done with it: the number by which the
// browser's protocol knows it is nobody's then.
func drawnAnew(err error) bool {
	return strings.Contains(err.Error(), "Could not find node with given id")
}

// until waits for an expression of the page to be true, over any reload.
func (w window) until(expression string) {
	w.t.Helper()
	pageHas(w, w.t, expression)
}

// pageHas waits for an expression of a page to be true, over any reload.
func pageHas(page context.Context, t *testing.T, expression string) {
	t.Helper()
	yes, err := false, error(nil)
	if !vigil.Until(30*time.Second, page.Done(), func() bool {
		yes, err = chromedp.Run(page, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && yes
	}) {
		shown, _ := chromedp.Run(page, chromedp.Evaluate[string]("document.body.innerText"))
		t.Fatalf("never: %s (%v)\n%s", expression, err, shown)
	}
}

// ask gives what an expression of the page is.
func ask[T any](w window, expression string) T {
	w.t.Helper()
	got, err := chromedp.Run(w, chromedp.Evaluate[T](expression))
	if err != nil {
		w.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// keys presses keys, as kb names them.
func (w window) keys(keys string, with ...chromedp.KeyOption) {
	w.t.Helper()
	w.do(chromedp.KeyEvent(keys, with...))
}
