package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"gatewayd/gateway/keys"
	"gatewayd/internal/fakellm"
	"gatewayd/sessiondb"
)

// told is an answer with what matters of its headers.
type told struct {
	status   int
	body     string
	session  string
	receipt  string
	replayed string
}

func (h *house) once(t *testing.T, ctx context.Context, path, key, body string, change ...func(*http.Request)) (told, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+path, strings.NewReader(body))
	if err != nil {
		return told{}, err
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(headerOnce, key)
	for _, c := range change {
		c(r)
	}
	w, err := h.Client().Do(r)
	if err != nil {
		return told{}, err
	}
	defer w.Body.Close()
	raw, err := io.ReadAll(w.Body)
	return told{w.StatusCode, string(raw), w.Header.Get(headerSession), w.Header.Get(headerReceipt), w.Header.Get(headerReplayed)}, err
}

func (h *house) must(t *testing.T, path, key, body string, change ...func(*http.Request)) told {
	t.Helper()
	got, err := h.once(t, bounded(t), path, key, body, change...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const (
	chatPath    = "/v1/chat/completions"
	streamHello = `{"stream":true,"messages":[{"role":"user","content":"hello"}]}`
	helloAgain  = `{"messages":[{"role":"user","content":"hello again"}]}`
)

// The same request under the same key is done once and answered alike, whole or streamed, also by a daemon that was started since.
func TestTheSameRequestAgainIsAnsweredWithTheSame(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "one"}, fakellm.Text{Text: "two"})
	for i, c := range []struct{ path, body string }{
		{chatPath, hello}, {chatPath, streamHello}, {"/api/sessions", `{"title":"a title"}`}, {"/api/sessions/s1/commands", `{"line":"/status"}`},
	} {
		key := fmt.Sprint("key ", i)
		key = strings.ReplaceAll(key, " ", "-")
		first := h.must(t, c.path, key, c.body)
		if first.status/100 != 2 || first.replayed != "" {
			t.Fatalf("%s: %+v", c.path, first)
		}
		for _, where := range []string{"the same daemon", "the next one"} {
			if where == "the next one" {
				h = h.reborn(t)
			}
			again := h.must(t, c.path, key, c.body)
			if again.replayed != "true" {
				t.Errorf("%s by %s is not marked as told again", c.path, where)
			}
			if again.replayed = ""; again != first {
				t.Errorf("%s by %s:\n got %+v\nwant %+v", c.path, where, again, first)
			}
		}
		other := h.must(t, c.path, key, strings.Replace(c.body, "{", `{ `, 1))
		if other.status != http.StatusConflict || !strings.Contains(other.body, "idempotency_key_conflict") {
			t.Errorf("%s with another body: %+v", c.path, other)
		}
	}
	if n := len(h.llm.Requests()); n != 2 {
		t.Errorf("the model was asked %d times", n)
	}
	elsewhere := h.must(t, chatPath, "key-0", hello, header(headerSession, "another"))
	if elsewhere.status != http.StatusConflict {
		t.Errorf("to another session: %+v", elsewhere)
	}
}

// reborn is the same home behind a new handler, which has nothing but the store.
func (h *house) reborn(t *testing.T) *house {
	t.Helper()
	return h.serve(t)
}

// Who asks the same meanwhile hears the same turn from its beginning; going away ends nothing.
func TestWhoAsksMeanwhileHearsTheSameTurn(t *testing.T) {
	for _, body := range []string{hello, streamHello} {
		gate := make(chan struct{})
		h := newHouse(t, nil, fakellm.Text{Text: "one two three four", ChunkChars: 9, Gate: gate})
		ctx := bounded(t)
		heard := make(chan told, 4)
		var wg sync.WaitGroup
		ask := func(ctx context.Context) {
			wg.Go(func() {
				got, err := h.once(t, ctx, chatPath, "k", body)
				if err == nil {
					heard <- got
				}
			})
		}
		ask(ctx)
		if _, err := h.llm.Wait(ctx, 1); err != nil {
			t.Fatal(err)
		}
		gate <- struct{}{}
		leaving, leave := context.WithCancel(ctx)
		ask(leaving)
		ask(ctx)
		ask(ctx)
		h.until(t, "the others", func() bool { return h.joined() == 3 })
		leave()
		h.until(t, "the leaving of one", func() bool { return h.joined() == 2 })
		close(gate)
		wg.Wait()
		close(heard)
		var first string
		n := 0
		for got := range heard {
			if n++; first == "" {
				first = got.body
			}
			if got.status != http.StatusOK || got.body != first || !strings.Contains(got.body, "four") {
				t.Errorf("one heard %+v\nanother %s", got, first)
			}
		}
		if n != 3 || len(h.llm.Requests()) != 1 {
			t.Errorf("%d heard it, the model was asked %d times", n, len(h.llm.Requests()))
		}
	}
}

// joined is how many wait for an answer that somebody else asked for first.
func (h *house) joined() (n int) {
	h.handler.flights.mu.Lock()
	defer h.handler.flights.mu.Unlock()
	for _, f := range h.handler.flights.of {
		n += int(f.joined.Load())
	}
	return n
}

// The first client's going ends the turn by the rule of its endpoint; those who asked the same hear the end, now and later.
func TestWhenTheFirstLeavesTheOthersHearTheEnd(t *testing.T) {
	for path, body := range map[string]string{
		chatPath: hello, chatPath + "?": streamHello, "/api/sessions/s1/messages": `{"text":"hello","wait":true}`,
	} {
		h := newHouse(t, nil, fakellm.StallMidStream{Text: "one two"})
		ctx, leave := context.WithCancel(bounded(t))
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = h.once(t, ctx, path, "k", body) })
		if _, err := h.llm.Wait(ctx, 1); err != nil {
			t.Fatal(err)
		}
		got := make(chan told, 1)
		wg.Go(func() {
			second, err := h.once(t, bounded(t), path, "k", body)
			if err != nil {
				t.Error(path, err)
			}
			got <- second
		})
		h.until(t, "the second", func() bool { return h.joined() == 1 })
		leave()
		second := <-got
		wg.Wait()
		if !strings.Contains(second.body, "interrupted") {
			t.Errorf("%s: the second heard %+v", path, second)
		}
		if later := h.must(t, path, "k", body); later.status != second.status || later.body != second.body || len(h.llm.Requests()) != 1 {
			t.Errorf("%s: later %+v\nnot %+v", path, later, second)
		}
	}
}

// A request that is refused before anything was done may be sent again; one that had an effect is remembered, whatever came of it.
func TestOnlyRefusalsBeforeAnyEffectAreForgotten(t *testing.T) {
	h := newHouse(t, nil, fakellm.Error{Status: 401}, fakellm.Text{Text: "fine"})
	if got := h.must(t, chatPath, "k1", `{"messages":7}`); got.status != http.StatusBadRequest {
		t.Errorf("%+v", got)
	}
	failed := h.must(t, chatPath, "k1", hello)
	if failed.status != http.StatusBadGateway || failed.receipt == "" {
		t.Errorf("after a refusal: %+v", failed)
	}
	if again := h.must(t, chatPath, "k1", hello); again.replayed != "true" || again.status != failed.status || again.body != failed.body {
		t.Errorf("the failed turn again: %+v", again)
	}
	if n := len(h.llm.Requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	for what, key := range map[string]string{"empty": "", "long": strings.Repeat("k", 256), "with a space": "a b", "not ASCII": "ключ"} {
		got := h.must(t, chatPath, key, hello)
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, `"param":"Idempotency-Key"`) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	twice := func(r *http.Request) { r.Header.Add(headerOnce, "second") }
	if got := h.must(t, chatPath, "k9", hello, twice); got.status != http.StatusBadRequest {
		t.Errorf("two keys: %+v", got)
	}
	if got := h.must(t, chatPath, strings.Repeat("k", 255), hello); got.status != http.StatusOK {
		t.Errorf("the longest key: %+v", got)
	}
}

// holder is a context of whoever holds the key of the tests.
func (h *house) holder(t *testing.T) context.Context {
	t.Helper()
	key, ok := h.handler.Keys.Check(testKey)
	if !ok {
		t.Fatal("the key of the tests is not known")
	}
	return keys.With(t.Context(), keys.Caller{Key: key})
}

// begun leaves a request behind as a process does that is killed in its middle.
func (h *house) begun(t *testing.T, path, key, body string) sessiondb.Once {
	t.Helper()
	r, _ := http.NewRequest(http.MethodPost, h.URL+path, nil)
	r.Header.Set("Content-Type", "application/json")
	o := sessiondb.Once{Scope: callerID(h.holder(t)) + " POST " + path, Key: key, Request: requestDigest(r, []byte(body)), UID: sessiondb.NewUID()}
	held, mine, err := h.store.ClaimOnce(t.Context(), o)
	if err != nil || !mine {
		t.Fatal(mine, err)
	}
	return held
}

// A request whose process ended in its middle is answered from the rows where they hold an answer; where they hold none it is said, and
// never done again. One of which no row is stored is done now: no model was asked without it.
func TestARequestThatWasCutOffIsAnsweredFromTheRows(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "fine"})
	for _, body := range []string{hello, streamHello} {
		o := h.begun(t, chatPath, "answered"+body[2:8], body)
		l := h.lease(t, "s-"+o.UID)
		h.append(t, l, sessiondb.NewMessage{UID: o.UID, TurnID: "turn_x", Role: "user", Content: "hello"},
			sessiondb.NewMessage{TurnID: "turn_x", Role: "assistant", Content: "from the rows", FinishReason: "stop"})
		got := h.must(t, chatPath, o.Key, body)
		if got.status != http.StatusOK || got.replayed != "true" || !strings.Contains(got.body, "from the rows") || got.session != l.Session {
			t.Errorf("%+v", got)
		}
		if body == hello {
			h.proves(t, got.receipt, 2)
		}
		if again := h.must(t, chatPath, o.Key, body); again.body != got.body {
			t.Errorf("once more: %+v", again)
		}
	}
	o := h.begun(t, chatPath, "cut-off", hello)
	h.append(t, h.lease(t, "s-cut"), sessiondb.NewMessage{UID: o.UID, TurnID: "turn_y", Role: "user", Content: "hello"},
		sessiondb.NewMessage{TurnID: "turn_y", Role: "assistant", Content: "[ended]", Kind: "closing"})
	if got := h.must(t, chatPath, o.Key, hello); got.status != http.StatusConflict || !strings.Contains(got.body, `"code":"interrupted"`) || !strings.Contains(got.body, "s-cut") {
		t.Errorf("a turn that was closed: %+v", got)
	}
	h.begun(t, "/api/sessions", "made", `{"title":"x"}`)
	h.begun(t, chatPath, "command", `{"messages":[{"role":"user","content":"/new"}]}`)
	for path, body := range map[string]string{"/api/sessions": `{"title":"x"}`, chatPath: `{"messages":[{"role":"user","content":"/new"}]}`} {
		key := map[string]string{"/api/sessions": "made", chatPath: "command"}[path]
		if got := h.must(t, path, key, body); got.status != http.StatusConflict || !strings.Contains(got.body, "idempotency_unknown") {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if n := len(h.llm.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	fresh := h.begun(t, chatPath, "nothing-stored", hello)
	if got := h.must(t, chatPath, fresh.Key, hello); got.status != http.StatusOK || !strings.Contains(got.body, "fine") {
		t.Errorf("of which nothing was stored: %+v", got)
	}
	if said, found, err := h.store.Said(t.Context(), fresh.UID); !found || err != nil || len(said.Rows) != 2 {
		t.Errorf("its row has another uid: %+v %v", said, err)
	}
}

func (h *house) lease(t *testing.T, session string) sessiondb.Lease {
	t.Helper()
	if _, err := h.store.CreateSession(t.Context(), sessiondb.NewSession{ID: session}); err != nil {
		t.Fatal(err)
	}
	holder, err := sessiondb.SelfHolder("test")
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.store.AcquireTurn(t.Context(), session, holder, 0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (h *house) append(t *testing.T, l sessiondb.Lease, rows ...sessiondb.NewMessage) {
	t.Helper()
	if _, err := h.store.Append(t.Context(), l, rows); err != nil {
		t.Fatal(err)
	}
}

// An answer too large to be kept is told whole to who asked, and from the rows afterwards.
func TestAnAnswerTooLargeToKeepIsToldFromTheRows(t *testing.T) {
	long := strings.Repeat("word ", sessiondb.OnceAnswer/5+1)
	answer := fakellm.Text{Text: long, ChunkChars: 100_000}
	h := newHouse(t, nil, answer, answer)
	for _, body := range []string{hello, streamHello} {
		first := h.must(t, chatPath, body[2:8], body)
		if first.status != http.StatusOK || len(first.body) < len(long) {
			t.Errorf("%d, %d bytes", first.status, len(first.body))
		}
		again := h.must(t, chatPath, body[2:8], body)
		if again.replayed != "true" || again.session != first.session || !strings.Contains(again.body, long[:len(long)-1]) || !strings.Contains(again.body, `"recalled":true`) {
			t.Errorf("again: %d, %d bytes: %.300s", again.status, len(again.body), again.body)
		}
	}
	if n := len(h.llm.Requests()); n != 2 {
		t.Errorf("the model was asked %d times", n)
	}
}

// A body that is no JSON is compared all the same, and what cannot be compared is refused.
func TestABodyOfAnyTypeIsCompared(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.MaxBody = 1000 })
	large := func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, 1001))), -1
		r.Header.Set("Content-Type", "text/plain")
	}
	if got := h.must(t, chatPath, "k", "x", large); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("%+v", got)
	}
}

// The key of one holder is nothing to another: what one was answered is told to nobody else, and hinders nobody.
func TestAnIdempotencyKeyBelongsToItsHolder(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "for ann"}, fakellm.Text{Text: "for bob"})
	router := h.handler.router()
	for _, c := range []struct{ who, body, want, replayed string }{
		{"ann", hello, "for ann", ""},
		{"bob", helloAgain, "for bob", ""},
		{"ann", hello, "for ann", "true"},
		{"bob", helloAgain, "for bob", "true"},
	} {
		r := newRequest(http.MethodPost, chatPath, c.body)
		r.Header.Set(headerOnce, "k")
		w := serve(router, r.WithContext(keys.With(r.Context(), keys.Caller{Key: keys.Key{ID: c.who, Scopes: []keys.Scope{keys.Chat}}})))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), c.want) || w.Header().Get(headerReplayed) != c.replayed {
			t.Errorf("%s: %d %s", c.who, w.Code, w.Body)
		}
	}
}
