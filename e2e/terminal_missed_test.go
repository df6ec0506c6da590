package e2e

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// missed is a conversation whose daemon was killed in the middle of an answer: its next daemon goes on, and nobody can watch that
// until the way is open again. In the meantime something was typed.
type missed struct {
	*scene
	proxy *passer
	*person
}

func newMissed(t *testing.T, then ...fakellm.Response) missed {
	t.Helper()
	gate := make(chan struct{}, 8)
	w := newScene(t, forever(), script(append([]fakellm.Response{fakellm.Text{Text: "this is cut off in the middle", ChunkChars: 6, Gate: gate}}, then...)...))
	m := missed{w, newPasser(t, w), nil}
	m.person = sitDown(t, 90, 40, elsewhere(t, w), nil, "chat", "--session", "desk", "--addr", m.proxy.addr())
	m.types("first" + enter)
	lets(t, gate)
	lets(t, gate)
	m.sees("this is cut")
	m.proxy.shuts("/events")
	w.killed()
	m.sees("the daemon is not there")
	m.types("typed meanwhile" + enter)
	m.sees("waits: typed meanwhile")
	w.again(w.home)
	m.proxy.leads(w)
	return m
}

// stores waits until a text is a row.
func (m missed) stores(text string) {
	m.scene.t.Helper()
	m.scene.until(text+" is stored", func() bool {
		return m.try(http.MethodGet, "/api/sessions/desk", nil, nil) == nil && slices.ContainsFunc(m.rows("desk"), func(r row) bool { return r.Content == text })
	})
}

// inOrder waits until texts stand below each other.
func (p *person) inOrder(texts ...string) {
	p.t.Helper()
	for i, text := range texts {
		texts[i] = regexp.QuoteMeta(text)
	}
	order := regexp.MustCompile("(?s)" + strings.Join(texts, ".*"))
	p.until("in this order: "+order.String(), order.MatchString)
}

func (m missed) leaves() {
	m.scene.t.Helper()
	m.types(ctrlD)
	if code := m.ends(); code != 0 {
		m.scene.t.Errorf("code %d", code)
	}
	m.stop()
}

// The answer that was cut off is whole, and what was typed meanwhile is being answered, before anybody can watch again: the first
// answer comes from the rows and stands above what comes now.
func TestAnAnswerThatEndedWhileNobodyWatchedIsShownBeforeWhatIsAnsweredNow(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	m := newMissed(t, fakellm.Text{Text: "the answer, begun anew"}, fakellm.Text{Text: "the second answer", ChunkChars: 6, Gate: gate})
	m.stores("the answer, begun anew")
	m.stores("typed meanwhile")
	m.proxy.shuts("")
	m.inOrder("this is cut", "the daemon was started anew", "the answer, begun anew", "> typed meanwhile")
	close(gate)
	m.inOrder("> typed meanwhile", "the second answer\n")
	m.once("> first", "> typed meanwhile", "the answer, begun anew", "the second answer")
	m.leaves()
}

// All of it has ended before anybody can watch again: everything comes from the rows, in its order.
func TestWhatEndedWhileNobodyWatchedIsShownInItsOrder(t *testing.T) {
	t.Parallel()
	m := newMissed(t, fakellm.Text{Text: "the answer, begun anew"}, fakellm.Text{Text: "the second answer"})
	m.stores("the second answer")
	m.proxy.shuts("")
	m.inOrder("this is cut", "the daemon was started anew", "the answer, begun anew", "> typed meanwhile", "the second answer\n")
	m.once("> first", "> typed meanwhile", "the answer, begun anew", "the second answer")
	m.leaves()
}

// The next daemon has told more of the answer than was seen of it before: it is another one nevertheless, and shown from its beginning.
func TestAnAnswerThatIsBegunAnewIsShownFromItsBeginning(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	m := newMissed(t, fakellm.Text{Text: "the answer, begun anew, which is long", ChunkChars: 3, Gate: gate}, fakellm.Text{Text: "the second answer"})
	for range 8 {
		lets(m.scene.t, gate)
	}
	m.proxy.shuts("")
	m.inOrder("the daemon was started anew", "the answer, begun")
	close(gate)
	m.inOrder("the daemon was started anew", "the answer, begun anew, which is long\n", "> typed meanwhile", "the second answer\n")
	m.once("> first", "> typed meanwhile", "the answer, begun anew", "the second answer")
	m.leaves()
}
