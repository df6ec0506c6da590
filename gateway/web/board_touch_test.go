package web

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"gatewayd/kanban"
)

// touch is a finger on the screen.
func (w window) touch(kind input.DispatchTouchEventType, x, y float64) {
	w.t.Helper()
	points := []*input.TouchPoint{{X: x, Y: y}}
	if kind == input.DispatchTouchEventTypeTouchEnd {
		points = []*input.TouchPoint{}
	}
	if err := call(w, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: points}); err != nil {
		w.t.Fatal(err)
	}
}

// phone is a window of a telephone's size, which has fingers and no mouse.
func (h *hall) phone(path string) window {
	h.t.Helper()
	w := h.open("/login", 390, 844, "light")
	if err := call(w, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true, MaxTouchPoints: 1}); err != nil {
		h.t.Fatal(err)
	}
	w.do(chromedp.Navigate(h.URL + path))
	w.until(ready)
	return w
}

func TestAFingerThatMovesAtOnceScrollsAndLiftsNothing(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	for i := range 12 {
		h.card(fmt.Sprintf("number %d", i), kanban.StatusTriage)
	}
	w := h.phone("/boards/plans")
	if wide := ask[int](w, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("the board is %d wide on a telephone of 390", wide)
	}
	x, y := w.middle(".card")
	// A slow machine would let the finger rest between two commands of the test, so the clock of its rest stands still and is looked at.
	w.do(chromedp.Evaluate[chromedp.Void](`void (() => {
		const set = setTimeout, clear = clearTimeout;
		window.began = window.resting = 0;
		window.setTimeout = (f, ms, ...more) => ms === 400 ? (began++, resting++, -1) : set(f, ms, ...more);
		window.clearTimeout = id => id === -1 ? void resting-- : clear(id);
	})()`))
	w.touch(input.DispatchTouchEventTypeTouchStart, x, y)
	for i := range 8 {
		w.touch(input.DispatchTouchEventTypeTouchMove, x, y-float64(30*(i+1)))
	}
	w.touch(input.DispatchTouchEventTypeTouchEnd, 0, 0)
	w.until(`scrollY > 0 && began === 1 && resting === 0 && !document.querySelector(".ghost")`)
	if n := h.asked("/move"); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
}

// It goes where the finger is, and the page stays under it.
func TestAFingerThatRestsLiftsACard(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	id := h.card("held by a finger", kanban.StatusReady)
	w := h.phone("/boards/plans")
	x, y := w.middle("#" + id)
	w.touch(input.DispatchTouchEventTypeTouchStart, x, y)
	w.until(`document.querySelector(".ghost") && document.querySelector("#col-blocked.takes") && document.querySelector("#col-running.refuses")`)
	tx, ty := w.middle("#col-blocked")
	for i := range 6 {
		f := float64(i+1) / 6
		w.touch(input.DispatchTouchEventTypeTouchMove, x+(tx-x)*f, y+(ty-y)*f)
	}
	w.until(`document.querySelector("#col-blocked.takes.at")`)
	w.touch(input.DispatchTouchEventTypeTouchEnd, 0, 0)
	w.until(inColumn(id, kanban.StatusBlocked) + ` && !document.querySelector(".ghost")`)
	if at := h.at(id); at != kanban.StatusBlocked {
		t.Errorf("the page says blocked, the file says %s", at)
	}
	if path := ask[string](w, "location.pathname"); path != "/boards/plans" {
		t.Errorf("a finger that lifted a card opened %s", path)
	}
	if n := h.asked("/move"); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
}
