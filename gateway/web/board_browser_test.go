package web

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gatewayd/kanban"
)

// inColumn is an expression: the card lies in the column.
func inColumn(id string, status kanban.Status) string {
	return fmt.Sprintf(`document.getElementById(%q)?.closest(".col")?.id === "col-%s"`, id, status)
}

const (
	ready  = `document.body.dataset.live === "yes"` // events are heard
	refuse = `!document.getElementById("trouble").hidden`
)

func TestABoardIsPaintedInTheServersOrder(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	title := "<img src=x onerror=document.title='owned'>"
	id := h.card(title, kanban.StatusReady)
	h.card("rough", kanban.StatusTriage)
	h.why[id] = Hold{Reason: "no_lane", Detail: "no lane is called ana"}
	w := h.open("/boards/plans", 0, 0, "light")
	w.until(ready)
	var want []string
	for _, s := range shownStatuses(false) {
		want = append(want, string(s))
	}
	if got := ask[[]string](w, `[...document.querySelectorAll(".col")].map(c => c.dataset.status)`); !slices.Equal(got, want) {
		t.Errorf("columns %v, want %v", got, want)
	}
	if got := ask[string](w, fmt.Sprintf(`document.getElementById(%q).textContent`, id)); got != title {
		t.Errorf("the title reads %q", got)
	}
	if n := ask[int](w, `document.querySelectorAll("img").length`); n != 0 || ask[string](w, "document.title") == "owned" {
		t.Error("a title became markup")
	}
	if got := ask[string](w, `document.querySelector("#col-ready .why").innerText`); got != "no_lane no lane is called ana" {
		t.Errorf("why: %q", got)
	}
	if got := ask[string](w, `document.querySelector("#col-ready .count").textContent`); got != "1" {
		t.Errorf("%s cards are counted", got)
	}
}

// middle is where an element lies on the screen.
func (w window) middle(selector string) (x, y float64) {
	w.t.Helper()
	at := ask[[]float64](w, fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect(); return [r.x + r.width / 2, r.y + Math.min(20, r.height / 2)]; })()`, selector))
	return at[0], at[1]
}

// drag takes a card with the mouse to a column.
func (w window) drag(id string, to kanban.Status) {
	w.t.Helper()
	x, y := w.middle("#" + id)
	w.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, x, y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
	tx, ty := w.middle("#col-" + string(to))
	for i := range 5 {
		f := float64(i+1) / 5
		w.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x+(tx-x)*f, y+(ty-y)*f, chromedp.ButtonLeft))
	}
	w.until(`document.querySelector(".ghost")`)
	w.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, tx, ty, chromedp.ButtonLeft, chromedp.ClickCount(1)))
}

func TestACardIsDraggedOnlyWhereTheServerLetsIt(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	id, waits := h.card("the first thing", kanban.StatusReady), ""
	waits = h.card("the second thing", kanban.StatusTodo, func(n *kanban.NewTask) { n.Parents = []string{id} })
	w := h.open("/boards/plans", 1600, 800, "dark")
	w.until(ready)

	w.drag(waits, kanban.StatusDone)
	w.until(refuse + ` && document.querySelector("#trouble p").textContent.includes("is todo and cannot be moved to done")`)
	if at := h.at(waits); at != kanban.StatusTodo || !ask[bool](w, inColumn(waits, kanban.StatusTodo)) {
		t.Errorf("a refused card is in %s", at)
	}
	if n := h.asked(waits + "/move"); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}

	w.drag(id, kanban.StatusDone)
	w.until(inColumn(id, kanban.StatusDone) + ` && document.getElementById("said").textContent === "the first thing: moved to done" && !(` + refuse + `)`)
	if at := h.at(id); at != kanban.StatusDone {
		t.Errorf("the page says done, the file says %s", at)
	}
	if path := ask[string](w, "location.pathname"); path != "/boards/plans" {
		t.Errorf("dragging opened %s", path)
	}
}

func TestARefusedColumnSaysSoWhileACardIsOverIt(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	id := h.card("an idea", kanban.StatusTriage)
	w := h.open("/boards/plans", 1600, 800, "light")
	w.until(ready)
	at := ask[[]float64](w, fmt.Sprintf(`(() => { const r = document.getElementById(%q).getBoundingClientRect(); return [r.x + 20, r.y + 8]; })()`, id))
	w.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0]+40, at[1]+40, chromedp.ButtonLeft))
	w.until(`document.querySelector("#col-done.refuses .verdict").innerText === "not from triage" && document.querySelector("#col-running .verdict").innerText === "only a worker starts a card"`)
	w.until(`document.querySelector("#col-todo.takes .verdict").hidden`)
	w.keys(kb.Escape)
	w.until(`!document.querySelector(".ghost, .refuses")`)
	if h.asked("/move") != 0 || h.at(id) != kanban.StatusTriage {
		t.Error("a card that was let go was moved")
	}
}

func TestACardIsMovedByKeyboardAndKeepsTheFocus(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	id := h.card("by keys alone", kanban.StatusTriage)
	h.card("another one", kanban.StatusDone)
	w := h.open("/boards/plans", 0, 0, "light")
	w.until(ready)
	w.do(chromedp.Focus("#" + id))
	w.keys("m")
	w.until(`document.getElementById("move").open && document.activeElement.textContent === "Todo"`)
	if got := ask[[]string](w, `[...document.querySelectorAll(".targets button:not([aria-disabled])")].map(b => b.textContent)`); !slices.Equal(got, []string{"Todo", "Ready", "Archived"}) {
		t.Errorf("it may go to %v", got)
	}
	if got := ask[string](w, `[...document.querySelectorAll(".targets button[aria-disabled]")].find(b => b.textContent.startsWith("Done")).textContent`); got != "Done not from triage" {
		t.Errorf("a forbidden target says %q", got)
	}
	w.do(chromedp.SetValue("#move-why", "it is clear enough"), chromedp.Focus(".targets button:not([aria-disabled])"))
	w.keys(kb.Enter)
	w.until(inColumn(id, kanban.StatusReady) + fmt.Sprintf(` && document.activeElement.id === %q`, id))
	w.until(`document.getElementById("said").textContent === "by keys alone: is in ready"`)
	if events, _ := h.board.Events(t.Context(), 0, 0); !slices.ContainsFunc(events, func(e kanban.Event) bool { return strings.Contains(string(e.Payload), "it is clear enough") }) {
		t.Error("the reason is lost")
	}
	w.keys(kb.ArrowRight, chromedp.KeyModifiers(kb.ModifierShift))
	w.until(inColumn(id, kanban.StatusBlocked) + fmt.Sprintf(` && document.activeElement.id === %q`, id))
	w.keys(kb.ArrowRight)
	w.until(`document.activeElement.textContent === "another one"`)
	w.keys("?")
	w.until(`document.getElementById("help").open`)
}

func TestWhatAnotherProcessDoesAppearsByItself(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	id := h.card("seen from the start", kanban.StatusReady)
	w := h.open("/boards/plans", 0, 0, "dark")
	w.until(ready)
	w.do(chromedp.Focus("#"+id), chromedp.Evaluate[chromedp.Void](`void (window.same = true)`))
	late := h.card("written by somebody else", kanban.StatusBlocked)
	w.until(inColumn(late, kanban.StatusBlocked) + fmt.Sprintf(` && window.same && document.activeElement.id === %q`, id))
	h.CloseClientConnections()
	w.until(`!document.getElementById("line").hidden`)
	w.until(`document.getElementById("line").hidden`)
	later := h.card("and after the line was cut", kanban.StatusBlocked)
	w.until(inColumn(later, kanban.StatusBlocked))
}

func TestEverythingIsReadableWithoutJavaScript(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	id := h.card("plain reading", kanban.StatusReady, func(n *kanban.NewTask) { n.Body, n.Assignee = "**bold** words", "coder" })
	h.card("not looked for", kanban.StatusReady)
	w := window{newTab(t, 0, 0, "light"), t}
	if err := call(w, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	w.do(chromedp.Navigate(h.URL + "/boards/plans"))
	w.do(chromedp.SetValue("#filter", "PLAIN"), chromedp.Click(".filter button"), chromedp.WaitNotPresent(`//*[text()="not looked for"]`))
	for _, selector := range []string{`[data-open=new]`, `[data-open=help]`} {
		w.do(chromedp.WaitNotVisible(selector))
	}
	w.do(chromedp.Click("#"+id), chromedp.WaitVisible(".text strong"), chromedp.WaitNotVisible("#comments form"))
	w.do(chromedp.Navigate(h.URL+"/boards/plans/timeline"), chromedp.WaitVisible(".empty"))
}

func TestACardIsMadeEditedTalkedAboutAndParked(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	w := h.open("/boards/plans", 0, 0, "light")
	w.until(ready)
	w.keys("n")
	w.until(`document.getElementById("new").open && document.activeElement.name === "title"`)
	w.do(chromedp.SetValue("#new [name=title]", "made on the page"), chromedp.SetValue("#new [name=priority]", "4"), chromedp.SetValue("#new [name=assignee]", "coder"))
	w.do(chromedp.Click("#new button.main"))
	w.until(`document.querySelector("#col-ready .card")?.innerText.includes("P4")`)
	id := ask[string](w, `document.querySelector("#col-ready .card > a").id`)
	made, err := h.board.Task(t.Context(), id)
	if err != nil || made.Title != "made on the page" || made.Assignee != "coder" || made.CreatedBy != "first" {
		t.Fatalf("made %+v, %v", made, err)
	}

	w.do(chromedp.Click("#" + id))
	w.until(`document.body.classList.contains("view-card") && ` + ready)
	w.do(chromedp.Click("[data-open=edit]"), chromedp.SetValue("#edit [name=title]", "better words"), chromedp.Click("#edit button.main"))
	w.until(`document.querySelector("h1").textContent === "better words" && ` + ready)
	w.do(chromedp.SetValue("#comment", "looks **good**"), chromedp.Click("#comments form button"))
	w.until(`document.querySelector(".comments strong")?.textContent === "good" && document.getElementById("comment").value === ""`)
	w.do(chromedp.SetValue("#parent", "t_00000000"), chromedp.Click(`[aria-labelledby="links-h"] form button`))
	w.until(`document.querySelector('[aria-labelledby="links-h"] .wrong').innerText.includes("t_00000000")`)
	w.do(chromedp.SetValue("#reason", "ask Ana"), chromedp.Click("button[value=blocked]"))
	w.until(`document.querySelector(".status").innerText === "Blocked" && document.querySelector("button[value=ready]").innerText === "Unblock"`)
	after, err := h.board.Task(t.Context(), id)
	if err != nil || after.Status != kanban.StatusBlocked || after.Priority != 4 || after.Assignee != "coder" {
		t.Errorf("after it all %+v, %v", after, err)
	}
}

func TestALogIsFollowedAndWhatIsTypedStays(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	id := h.card("being worked on", kanban.StatusReady)
	if _, err := h.board.Claim(t.Context(), id, kanban.Claimer{Lock: "elsewhere:1"}); err != nil {
		t.Fatal(err)
	}
	h.writeLog(id, "\x1b[31mone\x1b[0m\n")
	w := h.open("/boards/plans/tasks/"+id, 0, 0, "dark")
	w.until(ready + ` && document.getElementById("log").textContent === "one\n"`)
	w.do(chromedp.Focus("#comment"), chromedp.KeyEvent("half a sent"))
	h.writeLog(id, "one\n10 %\r90 %\rtwo\n")
	if _, err := h.board.Comment(t.Context(), id, "ana", "meanwhile"); err != nil {
		t.Fatal(err)
	}
	w.until(`document.getElementById("log").textContent === "one\ntwo\n" && document.querySelector(".comments").innerText.includes("meanwhile")`)
	w.keys("ence")
	w.until(`document.getElementById("comment").value === "half a sentence" && document.activeElement.id === "comment"`)
}

func TestATimelineTellsWhoRanWhenAndHowItEnded(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	id := h.card("<b>the</b> runner", kanban.StatusReady)
	for range 2 {
		claim, err := h.board.Claim(t.Context(), id, kanban.Claimer{Lock: "elsewhere:1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.board.EndRun(t.Context(), kanban.End{Task: id, Run: claim.Run.ID, Outcome: kanban.OutcomeRateLimited, Error: "429"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.board.Claim(t.Context(), id, kanban.Claimer{Lock: "elsewhere:1"}); err != nil {
		t.Fatal(err)
	}
	w := h.open("/boards/plans/timeline", 0, 0, "light")
	w.until(ready)
	if n := ask[int](w, `document.querySelectorAll(".chart .bar").length`); n != 3 || ask[int](w, `document.querySelectorAll("tbody tr").length`) != 3 {
		t.Errorf("%d runs are drawn", n)
	}
	if got := ask[string](w, `document.querySelector(".chart a:has(.live) title").textContent`); !strings.HasPrefix(got, "<b>the</b> runner: running for ") {
		t.Errorf("a running one says %q", got)
	}
	w.until(`document.querySelector(".chart a:has(.warn) title").textContent.includes("rate limited")`)
	w.do(chromedp.Click(`//a[text()="by card"]`))
	w.until(`document.querySelector(".lane")?.textContent === "<b>the</b> runner"`)
}

// It runs beside no other test: its cookie is every window's.
func TestAKeyIsPastedOnceAndKeptByTheBrowserAlone(t *testing.T) {
	h := newHall(t)
	h.card("behind the login", kanban.StatusReady)
	w := window{newTab(t, 0, 0, "light"), t}
	if err := call(w, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{}}); err != nil {
		t.Fatal(err)
	}
	w.do(chromedp.Navigate(h.URL + "/boards/plans?q=behind"))
	w.until(`location.pathname === "/login" && document.activeElement.id === "key"`)
	w.keys("not the key\r")
	w.until(`document.getElementById("wrong")?.textContent.includes("not known") && document.activeElement.id === "key"`)
	w.keys(testKey + "\r")
	w.until(`location.pathname + location.search === "/boards/plans?q=behind" && ` + ready)
	if seen := ask[string](w, "document.cookie"); seen != "" {
		t.Errorf("scripts see the cookie %q", seen)
	}
	w.do(chromedp.Click(`//button[text()="Log out"]`))
	w.until(`location.pathname === "/login"`)
	w.do(chromedp.Navigate(h.URL + "/boards/plans"))
	w.until(`location.pathname === "/login"`)
}
