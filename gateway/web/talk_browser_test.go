package web

import (
	"bytes"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// once is an expression: a text is shown exactly once in the conversation.
func once(text string) string { return shownText + `.split("` + text + `").length === 2` }

const (
	rows    = `!document.querySelector("#rows [aria-busy]")` // what is shown is rows, not what was streamed
	atField = `document.activeElement.id === "text"`
	runs    = `document.body.classList.contains("running")`
)

// started opens a conversation in which a turn waits in the middle of its answer, after "You said: ab".
func started(x *talking) tab {
	x.hold.Store(true)
	b := x.open("/chat")
	b.types("abcdefghi\r")
	b.until(`location.pathname.startsWith("/chat/web-")`)
	x.let(2)
	b.until(holds("You said: "))
	return b
}

func TestATurnIsStreamedAndThenItsRowsTakeItsPlace(t *testing.T) {
	t.Parallel()
	x := newTalking(t)
	x.hold.Store(true)
	b := x.open("/chat")
	b.types("say one")
	b.do(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(kb.ModifierShift)), chromedp.KeyEvent("**two**"), chromedp.KeyEvent(kb.Enter))
	b.until(`location.pathname.startsWith("/chat/web-")`)
	x.let(1)
	b.until(holds("one\n*"))
	b.until(`document.querySelector("#rows [aria-busy]") && !document.querySelector("#rows .text")`)
	x.hold.Store(false)
	close(x.gate)
	b.until(rows + ` && document.querySelector("#rows .answer strong")?.textContent === "two"`)
	b.until(`document.querySelectorAll("#rows .answer").length === 1 && document.querySelectorAll("#rows .person").length === 1`)
	b.until(`document.getElementById("said").textContent.startsWith("Answer: one") && !` + runs)
	b.do(chromedp.Focus("#text"), chromedp.KeyEvent("say three\r"))
	b.until(rows + " && " + holds("three") + " && " + atField + ` && document.getElementById("text").value === ""`)
	if said := x.said("/messages"); said != 2 {
		t.Errorf("%d messages were sent", said)
	}
}

func TestAReloadAndASecondTabInTheMiddleOfATurnShowIt(t *testing.T) {
	t.Parallel()
	x := newTalking(t)
	b := started(x)
	other := x.open(b.eval("location.pathname"))
	b.do(chromedp.Reload())
	for _, one := range []tab{b, other} {
		one.until(once("You said: ") + " && " + runs)
		one.until(`document.querySelectorAll("#rows .person").length === 1`)
	}
	x.hold.Store(false)
	close(x.gate)
	for _, one := range []tab{b, other} {
		one.until(rows + " && " + once("You said: abcdefghi") + " && !" + runs)
	}
}

// A part of the turn is in rows when the connection is lost, a part is said meanwhile, and all of it is told again afterwards.
func TestALostConnectionLosesNothingAndDoublesNothing(t *testing.T) {
	t.Parallel()
	x := newTalking(t)
	x.hold.Store(true)
	b := x.open("/chat")
	b.types("clean up\r")
	b.until(`document.querySelector(".ask")`)
	b.do(chromedp.Click(".ask button[value=once]"))
	x.let(2)
	b.until(once("It is"))
	x.CloseClientConnections()
	b.until(`!document.getElementById("line").hidden`)
	x.let(2)
	b.until(`document.getElementById("line").hidden`)
	b.until(once("It is clean now") + " && " + once("I look first.") + ` && document.querySelectorAll("#rows .person").length === 1 && document.querySelectorAll("#rows .tool").length === 1`)
	x.hold.Store(false)
	close(x.gate)
	b.until(rows + " && " + once("I look first.") + " && " + holds("It is clean now. It is clean now. It is clean now."))
}

func TestNothingIsApprovedWithoutAClick(t *testing.T) {
	t.Parallel()
	x := newTalking(t)
	b := x.open("/chat")
	b.types("clean up\r")
	b.until(`document.querySelector(".ask") && ` + holds("waits for you"))
	other := x.open(b.eval("location.pathname"))
	other.until(`document.querySelector(".ask")`)
	b.until(`document.getElementById("said").textContent.includes("asks for your approval")`)
	b.do(chromedp.KeyEvent(" "), chromedp.KeyEvent("\r"), chromedp.KeyEvent("\t"))
	b.until(`document.querySelector(".ask")`)
	if x.said("/api/approvals/") != 0 || x.ran.Load() != 0 {
		t.Fatal("it was approved by a key that was meant for the message")
	}
	b.do(chromedp.Click(".ask button[value=once]"))
	for _, one := range []tab{b, other} {
		one.until(`!document.querySelector(".ask") && ` + rows + " && " + holds("It is clean now.") + " && " + holds("done"))
	}
	if x.said("/api/approvals/") != 1 || x.ran.Load() != 1 {
		t.Errorf("%d decisions, ran %d times", x.said("/api/approvals/"), x.ran.Load())
	}
}

func TestWhileATurnRunsAMessageWaitsAndStopEndsIt(t *testing.T) {
	t.Parallel()
	x := newTalking(t)
	b := started(x)
	b.types("and then?\r")
	b.until(`document.querySelector(".waits")?.innerText.includes("and then?")`)
	x.hold.Store(false)
	b.do(chromedp.Click("#stop"))
	b.until(rows + " && " + once("You said: and then?") + ` && !document.querySelector(".waits") && document.querySelector("#rows .note")`)
	b.until(atField)
}

func TestACommandIsCompletedByTheKeyboard(t *testing.T) {
	t.Parallel()
	x := newTalking(t)
	b := x.open("/chat")
	b.types("hello\r")
	b.until(`location.pathname.startsWith("/chat/web-") && ` + holds("You said: hello"))
	b.types("/us")
	b.until(`document.getElementById("text").getAttribute("aria-activedescendant") === "c-usage"`)
	b.do(chromedp.KeyEvent("\t"))
	b.until(`document.getElementById("text").value === "/usage " && document.getElementById("commands").hidden`)
	b.eval(`document.getElementById("text").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", isComposing: true, bubbles: true, cancelable: true}))`)
	if x.said("/messages") != 1 {
		t.Error("the Enter of a word that is being composed sends the message")
	}
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.getElementById("notes").innerText.includes("token")`)
}

func TestAConversationIsRenamedAndDeletedFromTheList(t *testing.T) {
	t.Parallel()
	x := newTalking(t)
	x.filled("one", 1)
	b := x.open("/sessions")
	b.do(chromedp.Click(`[data-open="e-one"]`), chromedp.SetValue("#e-one input[name=title]", "Another name"), chromedp.Click("#e-one button.main"))
	b.until(`document.querySelector(".one .what").innerText.includes("Another name")`)
	b.eval(`window.confirm = text => { document.title = text; return document.title.includes("Another name"); }`)
	b.do(chromedp.Click(`[data-open="e-one"]`), chromedp.Click("#e-one button.danger"))
	b.until(`!document.querySelector(".one")`)
	if _, err := x.store.Session(t.Context(), "one"); err == nil {
		t.Error("it is still there")
	}
}

// Faults that a mutation puts into a script are there to be put in.
func TestEachFaultOfAScriptHasItsPlace(t *testing.T) {
	for _, f := range faults {
		data, err := staticFiles.ReadFile("static/" + f.file)
		if err != nil || bytes.Count(data, []byte(f.guard)) != 1 {
			t.Errorf("%s is in %s %d times (%v)", f.guard, f.file, bytes.Count(data, []byte(f.guard)), err)
		}
	}
}
