package web

import (
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gatewayd/gateway/keys"
	"gatewayd/kanban"
)

func TestABoardIsPausedAndACardScheduledAndSplitOnThePage(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	rough := h.card("a rough idea", kanban.StatusTriage)
	later := h.card("not before the new year", kanban.StatusReady)
	w := h.open("/boards/plans", 0, 0, "dark")
	w.until(ready)
	w.do(chromedp.Click("[data-open=pause]"), chromedp.SetValue("#pause [name=reason]", "release day"), chromedp.Click("#pause button.main"))
	w.until(`document.querySelector("form.note").innerText.includes("Paused by first") && document.querySelector("form.note").innerText.includes("release day") && !document.querySelector("dialog[open]")`)
	w.do(chromedp.Click("form.note button"))
	w.until(`!document.querySelector("form.note")`)
	w.do(chromedp.Click("[data-open=pause]"), chromedp.Click(`#pause button[data-api$="/drain"]:not([name])`))
	w.until(`document.querySelector("form.note")?.innerText.includes("Being drained")`)
	if n := h.asked("/drain"); n != 1 {
		t.Errorf("drain was asked %d times", n)
	}

	w.do(chromedp.Navigate(h.URL + "/boards/plans/tasks/" + later))
	w.until(ready)
	w.do(chromedp.Click("[data-open=schedule]"), chromedp.SetValue("#schedule [name=due_at]", "2035-01-01T09:30"), chromedp.Click("#schedule button.main"))
	w.until(`document.querySelector(".status").innerText === "Scheduled" && [...document.querySelectorAll("dt")].some(e => e.textContent === "Due")`)
	due := ask[int64](w, `new Date(2035, 0, 1, 9, 30) / 1000`) // by the clock of who sits before it
	timers, err := h.board.Timers(t.Context())
	if err != nil || len(timers) != 1 || timers[0].Due != due {
		t.Errorf("timers %+v, want one due at %d: %v", timers, due, err)
	}
	w.do(chromedp.Click("[data-open=schedule]"), chromedp.SetValue("#schedule [name=rule]", "every now and then"), chromedp.Click("#schedule button.main"))
	w.until(`!document.querySelector("#schedule .wrong").hidden && document.activeElement.name === "rule"`)

	w.do(chromedp.Navigate(h.URL + "/boards/plans/tasks/" + rough))
	w.until(ready)
	w.do(chromedp.Click("[data-open=split]"), chromedp.SetValue("#split [name=children]", "measure it\n\n  write it down  \n"), chromedp.Click("#split button.main"))
	w.until(`document.querySelectorAll('[aria-labelledby="links-h"] .links li').length === 2 && document.querySelector('[aria-labelledby="links-h"]').innerText.includes("write it down")`)
	if _, err := h.board.Comment(t.Context(), rough, "x", "y"); err != nil {
		t.Fatal(err)
	}
	w.do(chromedp.SetValue("#comment", "good so"), chromedp.Click("#comments form button"))
	w.until(`[...document.querySelectorAll(".comments b")].some(b => b.textContent === "first")`)
}

// A key that only reads is shown everything and offered nothing; what it does all the same is refused in words.
func TestAKeyThatOnlyReadsIsOfferedNothing(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	id := h.card("to be looked at", kanban.StatusReady)
	_, token, err := h.keys.Add(keys.New{Name: "screen", Scopes: []keys.Scope{keys.Read}})
	if err != nil {
		t.Fatal(err)
	}
	w := h.open("/login", 0, 0, "light")
	if err := call(w, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Bearer " + token}}); err != nil {
		t.Fatal(err)
	}
	offered := `document.querySelectorAll("main button:not([data-open=help], .filter button, [data-shut]), main form[data-api]").length`
	for _, path := range []string{"/boards/plans", "/boards/plans/tasks/" + id, "/"} {
		w.do(chromedp.Navigate(h.URL + path))
		if n := ask[int](w, offered); n != 0 {
			t.Errorf("%s offers %d changes to a key that reads", path, n)
		}
		for _, wrong := range ask[[]string](w, audit) {
			t.Errorf("%s: %s", path, wrong)
		}
	}
	w.do(chromedp.Navigate(h.URL + "/boards/plans"))
	w.until(ready)
	w.do(chromedp.Focus("#" + id))
	w.keys("m")
	w.until(`document.getElementById("move").open && document.querySelector(".targets button").textContent.includes("this key only reads")`)
	w.keys(kb.Escape)
	w.drag(id, kanban.StatusDone)
	w.until(refuse + ` && document.querySelector("#trouble p").textContent.includes("scope")`)
	if at := h.at(id); at != kanban.StatusReady {
		t.Errorf("a key that reads has moved the card to %s", at)
	}
}
