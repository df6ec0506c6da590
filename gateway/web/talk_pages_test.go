package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway/api"
	"gatewayd/sessiondb"
)

// read asks for a page, or a part of one, as a browser without scripts does.
func (x *talking) read(path, part string) string {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.URL+path, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	if part != "" {
		r.Header.Set(fragmentHeader, part)
	}
	w, err := x.Client().Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode != http.StatusOK {
		x.t.Fatalf("%s: %d %v %s", path, w.StatusCode, err, body)
	}
	return string(body)
}

// growing is a store in which a turn stores a row between two looks of a page.
type growing struct {
	*sessiondb.Store
	grow func()
}

func (g growing) Messages(ctx context.Context, session string, f sessiondb.MessageFilter) ([]sessiondb.Message, error) {
	rows, err := g.Store.Messages(ctx, session, f)
	if f.Latest {
		g.grow()
	}
	return rows, err
}

// The page of a conversation has its field and its events also where a row comes while it is made.
func TestARowThatComesWhileThePageIsMadeDoesNotMakeItAnOldOne(t *testing.T) {
	x := newTalking(t)
	x.filled("s", 2)
	lease, err := x.store.AcquireTurn(t.Context(), "s", sessiondb.Holder{Label: "test"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	page := New(Options{Sessions: growing{x.store, func() {
		_, err := x.store.Append(t.Context(), lease, []sessiondb.NewMessage{{TurnID: "t", Role: "user", Content: "meanwhile"}})
		if err != nil {
			t.Error(err)
		}
	}}})
	w := get(page, "/chat/s")
	if body := w.Body.String(); w.Code != http.StatusOK || strings.Contains(body, "Go to the newest") || !strings.Contains(body, `id="say"`) {
		t.Errorf("%d: the newest page is taken for an old one", w.Code)
	}
}

// filled makes a conversation of so many exchanges, without asking a model.
func (x *talking) filled(id string, exchanges int) {
	x.t.Helper()
	if _, err := x.store.CreateSession(x.t.Context(), sessiondb.NewSession{ID: id, Source: "web", Title: "About " + id}); err != nil {
		x.t.Fatal(err)
	}
	lease, err := x.store.AcquireTurn(x.t.Context(), id, sessiondb.Holder{Label: "test"}, time.Minute)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = x.store.Release(x.t.Context(), lease) }()
	for n := range exchanges {
		turn := fmt.Sprintf("%s-%d", id, n)
		_, err := x.store.Append(x.t.Context(), lease, []sessiondb.NewMessage{
			{TurnID: turn, Role: "user", Content: fmt.Sprintf("question number%d", n)}, {TurnID: turn, Role: "assistant", Content: fmt.Sprintf("answer %d <b>is</b> **bold**", n)},
		})
		if err != nil {
			x.t.Fatal(err)
		}
	}
}

var olderLink = regexp.MustCompile(`href="(/chat/[^"]*\?before=\d+)">Earlier`)

func TestAConversationIsReadPageByPageWithoutScripts(t *testing.T) {
	x := newTalking(t)
	x.filled("long", 100)
	seen, path := map[string]int{}, "/chat/long"
	for pages := 0; path != ""; pages++ {
		body := x.read(path, "")
		for _, q := range regexp.MustCompile(`question number\d+<`).FindAllString(body, -1) {
			seen[q]++
		}
		if strings.Contains(body, "<b>is</b>") || !strings.Contains(body, "<strong>bold</strong>") || pages > 9 {
			t.Fatalf("page %d is not as it should be", pages)
		}
		if len(body) > 150_000 {
			t.Errorf("page %d has %d bytes", pages, len(body))
		}
		path = ""
		if m := olderLink.FindStringSubmatch(body); m != nil {
			path = m[1]
		}
	}
	for n := range 100 {
		if times := seen[fmt.Sprintf("question number%d<", n)]; times != 1 {
			t.Errorf("question %d is on %d pages", n, times)
		}
	}
}

func TestASearchLeadsToTheRowInItsConversation(t *testing.T) {
	x := newTalking(t)
	x.filled("long", 100)
	found := x.read("/search?q=number7", "")
	m := regexp.MustCompile(`href="(/chat/long\?at=(\d+)#m(\d+))">About long</a>`).FindStringSubmatch(found)
	if m == nil || m[2] != m[3] || !strings.Contains(found, "<mark>number7</mark>") {
		t.Fatalf("no way to the row: %s", found)
	}
	at, _, _ := strings.Cut(m[1], "#")
	body := x.read(at, "")
	if !strings.Contains(body, `id="m`+m[2]+`"`) || !strings.Contains(body, "question number7<") || !strings.Contains(body, "question number4<") || !strings.Contains(body, "Go to the newest") {
		t.Errorf("the row is not in sight: %s", body)
	}
}

func TestTheListOfConversationsIsPaged(t *testing.T) {
	x := newTalking(t)
	for n := range sessionsOnPage + 3 {
		x.filled(fmt.Sprintf("s%02d", n), 1)
	}
	first := x.read("/sessions?source=web", "")
	next := regexp.MustCompile(`href="(/sessions\?[^"]*cursor=[^"]*)">Older`).FindStringSubmatch(first)
	if next == nil || strings.Count(first, `class="one"`) != sessionsOnPage {
		t.Fatalf("%d on the first page, next %v", strings.Count(first, `class="one"`), next)
	}
	second := x.read(strings.ReplaceAll(next[1], "&amp;", "&"), "")
	if strings.Count(second, `class="one"`) != 3 || strings.Contains(second, "Older<") {
		t.Errorf("%d on the second page", strings.Count(second, `class="one"`))
	}
}

// The page has no words of its own for how the daemon is.
func TestTheStatusIsWhatHealthSays(t *testing.T) {
	x := newTalking(t)
	x.lines.Store(&[]api.Check{{Name: "state.db", Status: "ok"}, {Name: "model", Status: "degraded", Reason: "the breaker of <x> is open"}, {Name: "dispatcher", Status: "off", Reason: "kanban.dispatch is false"}})
	body := x.read("/status", "")
	for _, word := range []string{"the breaker of &lt;x&gt; is open", "kanban.dispatch is false", "1 thing not ok", `title="model: the breaker of &lt;x&gt; is open"`} {
		if !strings.Contains(body, word) {
			t.Errorf("%q is not told", word)
		}
	}
	x.lines.Store(&[]api.Check{{Name: "state.db", Status: "ok"}})
	if badge := x.read("/status", "badge"); strings.TrimSpace(badge) != "" {
		t.Errorf("the badge stays: %s", badge)
	}
}
