package web

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// theBrowser is one for all tests: it takes a second to start.
var theBrowser struct {
	sync.Once
	ctx  context.Context
	stop func()
}

// newTab opens a page of its own in the browser, with the given size and colours; width 0 is a workstation's.
func newTab(t *testing.T, width, height int64, colours string) context.Context {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("SKIPPED: chromium is not installed, so the page is not tried in a browser")
	}
	theBrowser.Do(func() {
		flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.Flag("disable-dev-shm-usage", true))
		if os.Geteuid() == 0 {
			flags = append(flags, chromedp.NoSandbox)
		}
		alloc, free := chromedp.NewExecAllocator(context.Background(), flags...)
		ctx, cancel := chromedp.NewContext(alloc)
		theBrowser.ctx, theBrowser.stop = ctx, func() { cancel(); free() }
		if err := chromedp.Do(ctx); err != nil {
			t.Fatal(err)
		}
	})
	tab, closeTab := chromedp.NewContext(theBrowser.ctx)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(tab, 40*time.Second)
	t.Cleanup(cancel)
	if width == 0 {
		width, height = 1280, 800
	}
	for _, err := range []error{
		call(ctx, network.Enable, network.EnableParams{}),
		call(ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Bearer " + testKey}}),
		call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600}),
		call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return ctx
}

func call[P any](ctx context.Context, command cdp.Command[P, cdp.Empty], params P) error {
	_, err := chromedp.Call(ctx, command, params)
	return err
}

const testKey = "k-test"
