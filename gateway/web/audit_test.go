package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gatewayd/kanban"
)

// audit is a function of the page: what a person with a screen reader, a keyboard or weak eyes would stumble over.
const audit = `(() => {
  const wrong = [], say = (e, what) => wrong.push(what + ": " + e.outerHTML.slice(0, 140));
  const shown = e => e.checkVisibility({visibilityProperty: true}) && !e.closest("[hidden]");
  const dot = document.createElement("canvas").getContext("2d", {willReadFrequently: true}), known = new Map();
  const paint = c => { dot.clearRect(0, 0, 1, 1); dot.fillStyle = c; dot.fillRect(0, 0, 1, 1); return [...dot.getImageData(0, 0, 1, 1).data]; };
  const rgb = c => known.get(c) || known.set(c, paint(c)).get(c);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return rgb("Canvas"); };
  const name = e => (e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") || "").split(" ").map(i => document.getElementById(i)?.textContent || "").join(" ").trim()
    || [...(e.labels || [])].map(l => l.textContent).join(" ") || e.textContent || e.value || e.title || "").trim();
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, dialog, [role=region]")) if ((shown(e) || e.closest("dialog")) && !name(e)) say(e, "no name");
  for (const e of document.querySelectorAll("input, textarea")) if (e.type !== "hidden" && !e.labels?.length && !e.getAttribute("aria-label")) say(e, "no label");
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) say(e, "a tab order of its own");
  for (const e of document.querySelectorAll("[style], [onclick], script:not([src]), style")) say(e, "inline");
  for (const e of document.querySelectorAll("svg")) if (!e.getAttribute("aria-hidden") && !e.getAttribute("role") && !e.closest(".chart")) say(e, "a drawing that is read out");
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  for (const id of new Set(ids)) if (ids.filter(i => i === id).length > 1) wrong.push("twice the id " + id);
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) for (const id of (e.getAttribute("aria-labelledby") || e.getAttribute("aria-describedby")).split(" ")) if (!document.getElementById(id)) say(e, "no such label " + id);
  if (document.querySelectorAll("h1").length !== 1) wrong.push("headings of the first level: " + document.querySelectorAll("h1").length);
  if (!document.documentElement.lang || !document.querySelector("main") || !document.title) wrong.push("no language, no main part or no title");
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || !shown(e) || e.closest(".unseen, i, script, option, datalist, title, [aria-disabled]")) continue;
    const style = getComputedStyle(e), ink = rgb(e.closest("svg") ? style.fill : style.color), ground = behind(e);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) say(e, "contrast " + ratio.toFixed(2));
  }
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("scrolls sideways: " + document.documentElement.scrollWidth + " in " + innerWidth);
  return wrong;
})()`

// full makes a board with something of everything, and gives the pages of it.
func full(h *hall) []string {
	long := strings.Repeat("a_very_long_word_without_a_place_to_break", 4)
	id := h.card("A card with a rather long title that goes on and on until nobody reads it any more "+long, kanban.StatusReady, func(n *kanban.NewTask) {
		n.Body, n.Assignee, n.Tenant, n.Priority = "# Head\n\n"+long+"\n\n| a | b |\n|---|---|\n| "+long+" | 2 |\n\n```\n"+long+"\n```\n> quoted `code`", "coder", "maps", 3
	})
	h.why[id] = Hold{Reason: "no_lane", Detail: "no lane is called " + long, Remedy: "add the lane " + long}
	h.card("waits", kanban.StatusTodo, func(n *kanban.NewTask) { n.Parents = []string{id} })
	for _, status := range []kanban.Status{kanban.StatusTriage, kanban.StatusScheduled, kanban.StatusBlocked, kanban.StatusReview, kanban.StatusDone} {
		h.card("one that is "+string(status), status)
	}
	for i := range columnMost + 3 {
		h.card(fmt.Sprintf("number %d", i), kanban.StatusTriage)
	}
	running := h.card("being worked on", kanban.StatusReady, func(n *kanban.NewTask) { n.Assignee = "tester" })
	for i := range 4 {
		claim, err := h.board.Claim(h.t.Context(), running, kanban.Claimer{Lock: "elsewhere:1"})
		if err != nil {
			h.t.Fatal(err)
		}
		if i < 3 {
			if _, err := h.board.EndRun(h.t.Context(), kanban.End{Task: running, Run: claim.Run.ID, Outcome: []string{kanban.OutcomeCrashed, kanban.OutcomeReclaimed, kanban.OutcomeRateLimited}[i], Error: long}); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	h.writeLog(running, "a line\n"+long+long+"\n")
	if _, err := h.board.Comment(h.t.Context(), id, "ana", "a **word** and "+long); err != nil {
		h.t.Fatal(err)
	}
	if err := h.board.Pause(h.t.Context(), kanban.Pause{Mode: kanban.PauseStarts, Reason: "release day", By: "ana"}); err != nil {
		h.t.Fatal(err)
	}
	return []string{"/", "/boards/plans", "/boards/plans/tasks/" + id, "/boards/plans/tasks/" + running, "/boards/plans/timeline", "/login?problem=wrong", "/nowhere", "/boards/plans/tasks/t_none"}
}

func TestNobodyStumblesOverAPage(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	pages := full(h)
	for _, look := range []struct {
		width, height int64
		colours       []string
		pages         []string
	}{
		{1280, 800, []string{"dark", "light"}, pages},
		{390, 844, []string{"light"}, pages},
		{320, 640, []string{"dark"}, pages[1:3]},
	} {
		w := h.open("/login", look.width, look.height, "dark")
		for _, path := range look.pages {
			w.do(chromedp.Navigate(h.URL + path))
			for _, colours := range look.colours {
				if err := dress(w, colours); err != nil {
					t.Fatal(err)
				}
				for _, wrong := range ask[[]string](w, audit) {
					t.Errorf("%s, %d wide, %s: %s", path, look.width, colours, wrong)
				}
			}
		}
	}
}

// reach notes whatever gets the focus, and what of it does not show that it has it.
const reach = `void (() => {
  const ring = x => x && getComputedStyle(x).outlineStyle !== "none" && parseFloat(getComputedStyle(x).outlineWidth) >= 1;
  window.reached = new Set(), window.unseen = [];
  addEventListener("focusin", ({target: e}) => {
    if (e === document.body) return;
    reached.add(e);
    if (!ring(e) && !ring(e.parentElement) && !e.matches(".chart a")) unseen.push(e.outerHTML.slice(0, 80));
  });
})()`

func TestTheKeyboardReachesEverythingAndIsSeen(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	pages := full(h)
	w := h.open("/login", 0, 0, "light")
	for _, path := range pages[1:3] {
		w.do(chromedp.Navigate(h.URL + path))
		w.until(ready)
		want := ask[int](w, `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter(e => e.checkVisibility() && !e.disabled && !e.closest("dialog")).length`)
		w.do(chromedp.Evaluate[chromedp.Void](reach))
		w.keys(strings.Repeat(kb.Tab, want+2))
		for _, unseen := range ask[[]string](w, "window.unseen") {
			t.Errorf("%s: the focus is not seen on %s", path, unseen)
		}
		if got := ask[int](w, "window.reached.size"); got < want {
			t.Errorf("%s: Tab reaches %d of %d", path, got, want)
		}
	}
}
