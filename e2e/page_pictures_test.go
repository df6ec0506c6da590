package e2e

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"gatewayd/internal/fakellm"
)

var pictures = flag.String("pictures", "", "directory for pictures of the page, as docs shows them; empty: none are taken")

// The pictures that docs shows are of the daemon itself: go test ./e2e -run TestPicturesOfThePage -pictures "$PWD/docs/pictures"
func TestPicturesOfThePage(t *testing.T) {
	if *pictures == "" || !hasBrowser(t) {
		t.Skip("pictures are taken with -pictures DIR")
	}
	model := fakellm.Start(fakellm.Options{Each: posing})
	t.Cleanup(model.Close)
	home := anasHome(t, "model: {base_url: \""+model.URL()+"\", name: fake-model}\ntools: {terminal: ask, approval_timeout: 5m}\nkanban: {lanes: {helper: {preset: agent}}}\n")
	d := start(t, home)
	for title, text := range map[string]string{"Release notes for 2.4": "Write the notes", "Why is the nightly slow?": "Look at the log", "Rename the worker lanes": "Go on"} {
		var made struct{ Session struct{ ID string } }
		d.call(http.MethodPost, "/api/sessions", map[string]any{"title": title, "source": "web"}, &made)
		d.call(http.MethodPost, "/api/sessions/"+made.Session.ID+"/messages", map[string]any{"text": text, "source": "web"}, nil)
	}
	v := d.visit()
	v.do(chromedp.EmulateViewport(1280, 800))
	v.says("How much room is left, and what would free the most?")
	v.until(`location.pathname.startsWith("/chat/web-") && ` + shownRows + ` && document.querySelector("#rows .code")`)
	v.says("Yes, clear the build folder.")
	v.until(`document.querySelector(".ask") && document.getElementById("said").innerText.includes("asks")`)
	v.take("chat")
	v.do(chromedp.Click(".ask button[value=deny]"))
	v.until(`!document.querySelector(".ask") && ` + shownRows)
	v.do(chromedp.Navigate(v.base + "/status"))
	v.take("status")
}

// anasHome is a home whose path is one that a person has.
func anasHome(t *testing.T, yaml string) string {
	t.Helper()
	user := filepath.Join(os.TempDir(), "ana")
	home := filepath.Join(user, ".gatewayd")
	t.Cleanup(func() { _ = os.RemoveAll(user) })
	noError(t, os.MkdirAll(home, 0o700))
	writeConfig(t, home, yaml)
	return home
}

func (v visitor) take(name string) {
	v.t.Helper()
	png, err := chromedp.Run(v, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644)
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

// posing is the model of the pictures.
func posing(r fakellm.Request) fakellm.Response {
	sent, text := messagesOf(r), lastUser(r)
	after := len(sent) > 0 && sent[len(sent)-1].Role == "tool"
	switch {
	case strings.HasPrefix(text, "How") && !after:
		return run("df -h /")
	case strings.HasPrefix(text, "How"):
		return fakellm.Text{ChunkChars: 60, Reasoning: "The root file system is what counts.", Text: "There is room for about a week. Two folders hold most of what can be made anew:\n\n" +
			"| folder | size | made anew by |\n|---|---|---|\n| `build` | 18 GB | `make` |\n| `.cache/go-build` | 6 GB | the next test |\n\n" +
			"To see the rest by size:\n\n```sh\ndu -xh --max-depth=2 / 2>/dev/null | sort -h | tail -5\n```\n\nShall I clear **build**?"}
	case strings.HasPrefix(text, "Yes") && !after:
		return run("rm -rf build")
	}
	return fakellm.Text{ChunkChars: 60, Text: "Done: three paragraphs, and a list of what changed."}
}
