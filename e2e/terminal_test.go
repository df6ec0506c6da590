package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// Keys of a terminal.
const (
	enter, ctrlC, ctrlD, ctrlR, altEnter = "\r", "\x03", "\x04", "\x12", "\x1b\r"
	keyUp, keyTab                        = "\x1b[A", "\t"
)

// script answers one after the other, the last one for ever.
func script(list ...fakellm.Response) func(fakellm.Request) fakellm.Response {
	var n atomic.Int64
	return func(fakellm.Request) fakellm.Response { return list[min(int(n.Add(1)), len(list))-1] }
}

// once says that a text stands exactly once in all that is shown.
func (p *person) once(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if n := strings.Count(p.all(), text); n != 1 {
			p.t.Errorf("%q stands %d times\n%s", text, n, p.all())
		}
	}
}

// A conversation at a terminal: what is said stands once, its answer below it broken between words, and what it took.
func TestAPersonTalksAtATerminal(t *testing.T) {
	t.Parallel()
	const long = "Good **morning**, you. This is a somewhat longer answer, so that the row has to be broken somewhere between its words."
	w := newScene(t, hasty(), script(fakellm.Text{Text: long}, fakellm.Text{Text: "Second."}))
	p := sitDown(t, 60, 20, w.home, nil, "chat", "--session", "desk")
	p.sees("conversation desk", ">")
	p.types("hello" + enter)
	p.sees("Good **morning**, you.", "longer answer, so\nthat the row", "10 tokens in, 5 out · fake-model")
	p.types("and again" + enter)
	p.sees("Second.\n0.")
	p.once("> hello", "Good **morning**", "> and again", "Second.")
	p.types(ctrlD)
	if code := p.ends(); code != 0 {
		t.Errorf("code %d", code)
	}
	if !strings.HasSuffix(p.raw.String(), "\x1b[?2004l") {
		t.Errorf("the terminal is not given back: %q", p.raw.String()[max(0, p.raw.Len()-80):])
	}
	if got := roles(w.rows("desk")); got != "user assistant user assistant" {
		t.Errorf("rows: %s", got)
	}
	w.stop()
}

// One message with TEXT is wrapped between words, too, where somebody looks, and not a byte of it is changed on a pipe.
func TestOneMessageAtATerminalIsWrappedBetweenWords(t *testing.T) {
	t.Parallel()
	const long = "Good morning, you. This is a somewhat longer answer, so that the row has to be broken somewhere between its words."
	answer := fakellm.Text{Text: long, ChunkChars: 7}
	w := newScene(t, hasty(), script(answer, answer, answer))
	p := sitDown(t, 60, 20, w.home, nil, "chat", "hello")
	p.sees("Good morning, you. This is a somewhat longer answer, so that\nthe row has to be broken somewhere between its words.")
	if code := p.ends(); code != 0 {
		t.Errorf("code %d", code)
	}
	whole := sitDown(t, 40, 20, w.home, nil, "chat", "--no-stream", "hello again")
	whole.sees("Good morning, you. This is a somewhat\nlonger answer, so that the row has to be\nbroken somewhere between its words.")
	if code := whole.ends(); code != 0 {
		t.Errorf("code %d", code)
	}
	if out, errs, code := cli(t, w.home, "chat", "hello once more"); code != 0 || out != long+"\n" {
		t.Errorf("on a pipe: %d %q %s", code, out, errs)
	}
	w.stop()
}

// What is typed while an answer comes stands below it, waits in sight, and is answered next; nothing is written into what is typed.
func TestWhatIsTypedDuringAnAnswerIsAnsweredNext(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newScene(t, forever(), script(fakellm.Text{Text: "one two three four five six", ChunkChars: 4, Gate: gate}, fakellm.Text{Text: "the second answer"}))
	p := sitDown(t, 60, 20, w.home, nil, "chat", "--session", "desk")
	p.types("first" + enter)
	lets(t, gate)
	lets(t, gate)
	p.sees("one two")
	p.types("the second quest")
	lets(t, gate)
	p.sees("one two thre", "> the second quest")
	p.types("ion" + enter)
	p.sees("waits: the second question")
	close(gate)
	p.sees("one two three four five six", "> the second question", "the second answer\n0.")
	p.once("> first", "one two three four five six", "the second question", "the second answer")
	p.types(ctrlD)
	p.ends()
	if got := said(w.rows("desk")); strings.Count(got, "the second question") != 1 {
		t.Errorf("rows: %s", got)
	}
	w.stop()
}

// Ctrl-C stops the answer and the conversation goes on; a second one, before the answer has ended, leaves.
func TestCtrlCStopsAnAnswerAndASecondOneLeaves(t *testing.T) {
	t.Parallel()
	w := newScene(t, forever(), script(fakellm.StallMidStream{Text: "half of an answer", After: 2}, fakellm.Text{Text: "all of it"}, fakellm.Hang{}))
	p := sitDown(t, 70, 20, w.home, nil, "chat", "--session", "desk")
	p.types("first" + enter)
	p.sees("half of an", "Ctrl-C stops")
	p.types("typed meanwhile" + ctrlC)
	p.sees("half of an", "topped") // the closing words
	p.until("the answer has ended and the line is as it was", func(string) bool {
		return strings.HasSuffix(strings.TrimSpace(p.window()), "> typed meanwhile") && !strings.Contains(p.window(), "Ctrl-C")
	})
	p.types(enter)
	p.sees("all of it\n0.")
	p.types("third" + enter)
	p.sees("> third", "thinks")
	p.types(ctrlC + ctrlC)
	if code := p.ends(); code != 0 {
		t.Errorf("code %d", code)
	}
	w.nothingRuns()
	w.stop()
}

// One message whose answer does not end at Ctrl-C, because the daemon hangs, is left by a second one, in words.
func TestASecondCtrlCLeavesOneMessage(t *testing.T) {
	t.Parallel()
	w := newScene(t, forever(), script(fakellm.StallMidStream{Text: "half of an answer", After: 2}))
	p := sitDown(t, 90, 20, w.home, nil, "chat", "--session", "desk", "tell me")
	p.sees("half of")
	if err := w.child.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.types(ctrlC)
	p.sees("is being stopped; Ctrl-C again leaves") // a second one before the first was heard would be the same one
	p.types(ctrlC)
	if code := p.ends(); code != 1 {
		t.Errorf("code %d", code)
	}
	p.sees("the answer was stopped", "session desk")
	if err := w.child.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.idle()
	w.stop()
}

// A conversation that is ended by a signal gives the terminal back, and its answer goes on.
func TestATerminalIsGivenBackAtASignal(t *testing.T) {
	t.Parallel()
	w := newScene(t, forever(), script(fakellm.Hang{}))
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		p := sitDown(t, 90, 20, w.home, nil, "chat", "--session", "desk")
		if sig == syscall.SIGTERM {
			p.types("hello" + enter)
		}
		p.sees("thinks")
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code := p.ends(); code != 0 {
			t.Errorf("%v: code %d", sig, code)
		}
		p.sees("the answer goes on; see it with: gatewayd chat --session desk")
		if !strings.Contains(p.raw.String(), "\x1b[?2004l") {
			t.Errorf("%v: the terminal is not given back", sig)
		}
	}
	w.slash("desk", "/stop")
	w.idle()
	w.stop()
}

// In an idle conversation Ctrl-C empties the line; in an empty one it says how to leave, and leaves.
func TestCtrlCInAnEmptyLineLeavesTheSecondTime(t *testing.T) {
	t.Parallel()
	w := newScene(t, hasty(), script(fakellm.Text{Text: "x"}))
	p := sitDown(t, 70, 20, w.home, nil, "chat")
	p.sees(">")
	p.types("not this")
	p.sees("> not this")
	p.types(ctrlC)
	p.until("the line is empty", func(string) bool { return !strings.Contains(p.window(), "not this") })
	p.types(ctrlC)
	p.sees("Ctrl-C again leaves")
	p.types(ctrlC)
	if code := p.ends(); code != 0 {
		t.Errorf("code %d", code)
	}
	w.stop()
}

// A paste of 20 kB with tabs and newlines arrives as it was, stands as a mark in the line, and is sent with Enter and not before.
func TestALargePasteArrivesAsItWas(t *testing.T) {
	t.Parallel()
	w := newScene(t, hasty(), script(fakellm.Text{Text: "read"}))
	p := sitDown(t, 70, 20, w.home, nil, "chat", "--session", "desk")
	p.sees(">")
	var b strings.Builder
	for i := 0; b.Len() < 20_000; i++ {
		fmt.Fprintf(&b, "\tline %d: wörter 漢字\n", i)
	}
	p.types("what is this? ")
	p.pastes(strings.ReplaceAll(b.String(), "\n", "\r")) // as terminals send newlines
	p.sees("[pasted 1: ")
	if rows := w.try("GET", "/api/sessions/desk", nil, nil); rows == nil {
		t.Error("it was sent before Enter")
	}
	p.types(enter)
	p.sees("read\n0.")
	rows := w.rows("desk")
	if want := strings.TrimSpace("what is this? " + b.String()); len(rows) == 0 || rows[0].Content != want {
		t.Errorf("%d rows, the first has %d bytes of %d", len(rows), len(rows[0].Content), len(want))
	}
	p.types(ctrlD)
	p.ends()
	w.stop()
}

// Wide characters are edited and broken where they are seen to be, and another size of the terminal is taken at once.
func TestWideCharactersAndAnotherSize(t *testing.T) {
	t.Parallel()
	w := newScene(t, hasty(), script(fakellm.Text{Text: strings.Repeat("漢字かな", 20)}, fakellm.Text{Text: strings.Repeat("word ", 30)}))
	p := sitDown(t, 40, 15, w.home, nil, "chat", "--session", "desk")
	p.sees(">")
	p.types("日本語x\x7f\x7f語!")
	p.sees("> 日本語!")
	p.types("\x01A\x05" + enter)
	p.sees("> A日本語!", "\n漢字")
	p.until("the wide answer has rows of whole characters", func(all string) bool {
		return strings.Contains(all, strings.Repeat("漢字かな", 4)+"漢字か\n") // 19 characters of two columns
	})
	p.sees("5 out")
	p.resizes(24, 15)
	p.types("again" + enter)
	p.sees("word word word word\nword")
	p.once("> again")
	p.types(ctrlD)
	p.ends()
	w.stop()
}

// Lines are found again after a restart, those with a space before them are not, and the file is its owner's alone.
func TestWhatWasTypedIsFoundAgain(t *testing.T) {
	t.Parallel()
	w := newScene(t, hasty(), script(fakellm.Text{Text: "ok"}))
	p := sitDown(t, 70, 24, w.home, nil, "chat")
	for i, line := range []string{"the first thing", " my secret", "two" + altEnter + "rows"} {
		p.types(line + enter)
		p.until("an answer", func(all string) bool { return strings.Count(all, " · fake-model") == i+1 })
	}
	p.types(ctrlD)
	p.ends()
	info, err := os.Stat(filepath.Join(w.home, "chat_history"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	p = sitDown(t, 70, 24, w.home, nil, "chat")
	p.sees(">")
	p.types(keyUp)
	p.sees("> two\n  rows")
	p.types(keyUp + keyUp) // through the rows of the one, then to the one before
	p.sees("> the first thing")
	p.types(ctrlC + ctrlR + "wo")
	p.sees(`(earlier line with "wo")`, "two")
	if strings.Contains(p.all(), "secret") {
		t.Error("the secret was kept")
	}
	p.types(ctrlC + ctrlD)
	p.ends()
	w.stop()
}

// Tab completes commands, and what follows them.
func TestTabCompletesCommandsAndTheirArguments(t *testing.T) {
	t.Parallel()
	w := newScene(t, hasty(), script(fakellm.Text{Text: "ok"}))
	p := sitDown(t, 80, 24, w.home, nil, "chat", "--session", "desk")
	p.types("hello" + enter)
	p.sees("ok\n0.")
	p.types("/tit" + keyTab + "Garden plans" + enter)
	p.sees("/title Garden plans", "is now called")
	p.types("/s" + keyTab)
	p.sees("/status", "/stop", "/sessions")
	p.types(ctrlC + "/resume Gar" + keyTab)
	p.sees("> /resume Garden plans")
	p.types(ctrlC + "/quit" + enter)
	p.ends()
	w.stop()
}

// What a tool wants is asked in the conversation, with what it would do, and answered there; the call stands on one line with its
// outcome.
func TestAToolAsksInTheConversation(t *testing.T) {
	t.Parallel()
	model := fakellm.New(t, removes("build"), fakellm.Text{Text: "It is gone."}, removes("build"), fakellm.Text{Text: "I was refused."})
	home := newHome(t, fmt.Sprintf("model: {base_url: %q, name: fake-model}\ntools: {terminal: ask, approval_timeout: 5m}\n", model.URL()))
	build := filepath.Join(home, "workspace", "build")
	if err := os.MkdirAll(build, 0o700); err != nil {
		t.Fatal(err)
	}
	d := start(t, home)
	p := sitDown(t, 80, 30, home, nil, "chat", "--session", "desk")
	p.types("clean up" + enter)
	p.sees("? terminal wants to do this:", "rm -rf build", "Unanswered it is denied", "y, session, always or n?")
	if _, err := os.Stat(build); err != nil {
		t.Errorf("it ran before it was approved: %v", err)
	}
	p.types("y" + enter)
	p.sees("approved (once)", "terminal  rm -rf build  ok 0.", "It is gone.\n0.")
	if _, err := os.Stat(build); err == nil {
		t.Error("it was approved and did not run")
	}
	p.types("again" + enter)
	p.until("it is asked again", func(all string) bool { return strings.Count(all, "? terminal wants") == 2 })
	p.types("n" + enter)
	p.sees("denied (deny)", "terminal  rm -rf build  failed", "I was refused.\n0.")
	p.types(ctrlD)
	p.ends()
	d.stop()
}

// The daemon is killed in the middle of an answer and another one started: the person is told, keeps what was typed meanwhile, and
// gets both answers; each message is stored once.
func TestAConversationGoesOnWithTheNextDaemon(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{}, 8)
	w := newScene(t, forever(), script(fakellm.Text{Text: "this is cut off in the middle", ChunkChars: 6, Gate: gate}, fakellm.Text{Text: "the answer, begun anew"}, fakellm.Text{Text: "the second answer"}))
	p := sitDown(t, 90, 30, w.home, nil, "chat", "--session", "desk")
	p.types("first" + enter)
	lets(t, gate)
	lets(t, gate)
	p.sees("this is cut")
	w.killed()
	p.sees("the daemon is not there")
	p.types("typed meanwhile" + enter)
	p.sees("waits: typed meanwhile", "nothing is lost")
	w.again(w.home)
	p.sees("the daemon was started anew", "the answer, begun anew", "> typed meanwhile", "the second answer\n0.")
	p.once("> first", "> typed meanwhile", "the answer, begun anew", "the second answer")
	p.types(ctrlD)
	if code := p.ends(); code != 0 {
		t.Errorf("code %d", code)
	}
	rows := said(w.rows("desk"))
	for _, text := range []string{"first", "typed meanwhile"} {
		if n := strings.Count(rows, text); n != 1 {
			t.Errorf("%q is stored %d times: %s", text, n, rows)
		}
	}
	w.stop()
}

// A connection that is lost while the daemon lives costs nothing of the answer and shows nothing twice.
func TestALostConnectionShowsNothingTwice(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newScene(t, forever(), script(fakellm.Text{Text: "one two three four five", ChunkChars: 4, Gate: gate}))
	proxy := newPasser(t, w)
	p := sitDown(t, 90, 30, elsewhere(t, w), nil, "chat", "--session", "desk", "--addr", proxy.addr())
	p.types("first" + enter)
	lets(t, gate)
	lets(t, gate)
	p.sees("one two")
	proxy.cut()
	lets(t, gate)
	proxy.cut()
	close(gate)
	p.sees("five\n")
	p.once("> first", "one two three four five")
	p.types(ctrlD)
	p.ends()
	w.stop()
}

// Where nothing can be drawn, the conversation is lines: no colour, no cursor movement.
func TestADumbTerminalGetsLines(t *testing.T) {
	t.Parallel()
	w := newScene(t, hasty(), script(fakellm.Text{Text: "**plain** words"}))
	for env, want := range map[string]string{"TERM=dumb": "\x1b", "NO_COLOR=1": "\x1b[1m"} {
		p := sitDown(t, 80, 24, w.home, []string{env}, "chat")
		p.sees(">")
		p.types("hello" + map[bool]string{true: "\n", false: enter}[env == "TERM=dumb"])
		p.sees("**plain** words")
		p.types(ctrlD)
		p.ends()
		if raw := p.raw.String(); strings.Contains(raw, want) {
			t.Errorf("%s: it writes %q", env, raw)
		}
	}
	w.stop()
}

// However often the daemon goes while a message is on its way, the message is stored once.
func TestAMessageIsSentOnceHoweverOftenTheDaemonGoes(t *testing.T) {
	t.Parallel()
	w := newScene(t, forever(), script(fakellm.Text{Text: "answered"}, fakellm.Text{Text: "well"}, fakellm.Text{Text: "well"}))
	proxy := newPasser(t, w)
	p := sitDown(t, 90, 30, elsewhere(t, w), nil, "chat", "--session", "desk", "--addr", proxy.addr())
	p.sees(">")
	proxy.deaf(true) // the daemon hears, and is not heard
	p.types("only once" + enter)
	w.until("the message is stored", func() bool {
		return w.try(http.MethodGet, "/api/sessions/desk", nil, nil) == nil && strings.Contains(said(w.rows("desk")), "only once")
	})
	proxy.cut()
	proxy.deaf(false)
	p.sees("answered\n")
	p.types("and this" + enter) // it is sent when the one before it is known to have come
	p.sees("well\n")
	p.types(ctrlD)
	p.ends()
	if rows := said(w.rows("desk")); strings.Count(rows, "only once") != 1 {
		t.Errorf("rows: %s", rows)
	}
	p.once("> only once", "answered")
	w.stop()
}

// lets one piece of an answer through.
func lets(t *testing.T, gate chan<- struct{}) {
	t.Helper()
	select {
	case gate <- struct{}{}:
	case <-time.After(seen):
		t.Fatal("the model is not asked")
	}
}

// elsewhere is a home with the key of a daemon and without its socket: who talks from there goes by the address.
func elsewhere(t *testing.T, w *scene) string {
	t.Helper()
	home := newHome(t, "")
	if err := os.WriteFile(filepath.Join(home, "api.key"), []byte(w.key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}
