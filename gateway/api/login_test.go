package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gatewayd/gateway/keys"
)

// paged is a handler with a page that says who looks at it.
func paged(t *testing.T) (http.Handler, *keys.Store) {
	t.Helper()
	store, err := keys.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h, _ := plain(func(o *Options) {
		o.Key, o.Keys = "", store
		o.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			caller, _ := keys.Who(r.Context())
			_, _ = w.Write([]byte("page for " + caller.Key.Name))
		})
	})
	return h, store
}

func newKey(t *testing.T, store *keys.Store, name string, scopes ...keys.Scope) string {
	t.Helper()
	_, text, err := store.Add(keys.New{Name: name, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// logIn gives the cookie of a login.
func logIn(t *testing.T, h http.Handler, key string) *http.Cookie {
	t.Helper()
	w := post(h, "/login", url.Values{"key": {key}})
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		t.Fatalf("login: %d %v %s", w.Code, w.Header(), w.Body)
	}
	return w.Result().Cookies()[0]
}

func post(h http.Handler, path string, fields url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := newRequest(http.MethodPost, path, fields.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range change {
		c(r)
	}
	return serve(h, r)
}

func as(c *http.Cookie) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value}) }
}

// with sends a request without a key.
func with(h http.Handler, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := newRequest(method, path, body)
	for _, c := range change {
		c(r)
	}
	return serve(h, r)
}

func TestAKeyIsExchangedForACookieThatNoScriptReads(t *testing.T) {
	h, store := paged(t)
	key := newKey(t, store, "laptop", keys.Chat)
	if w := with(h, "GET", "/boards/x?q=a+b", ""); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login?next=%2Fboards%2Fx%3Fq%3Da%2Bb" {
		t.Errorf("%d %q", w.Code, w.Header().Get("Location"))
	}
	refused(t, with(h, "GET", "/boards/x", "", header("Gatewayd-Fragment", "board")), http.StatusUnauthorized, "invalid_api_key")
	c := logIn(t, h, key)
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Secure || c.Name != "gatewayd" || strings.Contains(c.Value, key) || c.Domain != "" {
		t.Errorf("%+v", c)
	}
	if w := with(h, "GET", "/boards/x", "", as(c)); w.Body.String() != "page for laptop" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := with(h, "GET", "/api/whoami", "", as(c)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"door":"cookie"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(h, "/logout", nil, as(c), header("Sec-Fetch-Site", "same-origin")); w.Code != http.StatusOK || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	refused(t, with(h, "GET", "/api/whoami", "", as(c)), http.StatusUnauthorized, "invalid_api_key")
}

func TestALoginThatFailsSaysWhyAndGivesNoCookie(t *testing.T) {
	h, store := paged(t)
	key := newKey(t, store, "laptop", keys.Chat)
	for given, problem := range map[string]string{"": "missing", "wrong": "wrong", key + "x": "wrong"} {
		w := post(h, "/login", url.Values{"key": {given}, "next": {"//evil.example"}})
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/login?next=%2F&problem="+problem || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%q: %d %q", given, w.Code, to)
		}
	}
	w := with(h, "POST", "/login", `{"key":"wrong"}`)
	refused(t, w, http.StatusUnauthorized, "invalid_api_key")
	w = with(h, "POST", "/login", `{"key":"`+key+`","next":"/chat"}`)
	if w.Code != http.StatusOK || w.Header().Get("Set-Cookie") == "" || strings.Contains(w.Body.String(), key) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for next, want := range map[string]string{"/chat?x=1": "/chat?x=1", "//evil.example": "/", `/\evil.example`: "/", "https://evil.example": "/", "/a\tb": "/", "javascript:alert(1)": "/", "": "/"} {
		if to := post(h, "/login", url.Values{"key": {key}, "next": {next}}).Header().Get("Location"); to != want {
			t.Errorf("next %q leads to %q", next, to)
		}
	}
	refused(t, with(h, "POST", "/login", "key="+key, header("Content-Type", "text/plain")), http.StatusUnsupportedMediaType, "unsupported_media_type")
	refused(t, post(h, "/login", url.Values{"key": {strings.Repeat("x", 1<<15)}}), http.StatusRequestEntityTooLarge, "body_too_large")
}

func TestACookieChangesNothingUnlessThisVeryOriginAsks(t *testing.T) {
	h, store := paged(t)
	c := logIn(t, h, newKey(t, store, "laptop", keys.Admin))
	for name, headers := range map[string][]func(*http.Request){
		"nothing said": nil, "another port": {header("Origin", "http://127.0.0.1:3000")}, "another port, by its own word": {header("Sec-Fetch-Site", "same-site")},
		"no page": {header("Sec-Fetch-Site", "none")}, "another site": {header("Sec-Fetch-Site", "cross-site")}, "a sandbox": {header("Origin", "null")},
		"a liar": {header("Sec-Fetch-Site", "same-site"), header("Origin", "http://127.0.0.1:8642")},
	} {
		for _, method := range []string{"POST", "DELETE", "PATCH"} {
			path := map[string]string{"POST": "/api/keys", "DELETE": "/api/keys/laptop", "PATCH": "/api/boards/x"}[method]
			w := with(h, method, path, `{"name":"evil","scopes":["admin"]}`, append(headers, as(c))...)
			if w.Code != http.StatusForbidden {
				t.Errorf("%s: %s %d %s", name, method, w.Code, w.Body)
			}
		}
	}
	for name, ours := range map[string]func(*http.Request){
		"says the browser": header("Sec-Fetch-Site", "same-origin"), "says the origin": header("Origin", "http://127.0.0.1:8642"),
	} {
		if w := with(h, "POST", "/api/keys", `{"name":"`+name[:4]+name[9:12]+`","scopes":["read"]}`, ours, as(c)); w.Code != http.StatusCreated {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if list := store.List(); len(list) != 3 {
		t.Errorf("%+v", list)
	}
}

func TestAnotherPortsPageReadsNothingByACookie(t *testing.T) {
	h, store := paged(t)
	c := logIn(t, h, newKey(t, store, "laptop", keys.Admin))
	for name, says := range map[string]func(*http.Request){"no-cors": header("Sec-Fetch-Mode", "no-cors"), "link": header("Sec-Fetch-Mode", "navigate")} {
		refused(t, with(h, "GET", "/api/keys", "", says, header("Sec-Fetch-Site", "same-site"), as(c)), http.StatusForbidden, "same_origin_required")
		w := with(h, "GET", "/chat", "", says, header("Sec-Fetch-Site", "same-site"), as(c))
		if followed := w.Code == http.StatusOK; followed != (name == "link") {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	for _, junk := range []string{"gatewayd=junk; ", "gatewayd=; gatewayd=a.b.c; theme=dark; ", `gatewayd="x y"; `} {
		w := with(h, "GET", "/api/whoami", "", header("Cookie", junk+c.Name+"="+c.Value))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", junk, w.Code, w.Body)
		}
	}
	if w := with(h, "GET", "/api/whoami", "", header("Authorization", "Bearer wrong"), as(c)); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong key is made good by a cookie: %d", w.Code)
	}
}

func TestWrongKeysCostTheirAddressAndNobodyElse(t *testing.T) {
	h, store := paged(t)
	key := newKey(t, store, "laptop", keys.Chat)
	from := func(address string) func(*http.Request) {
		return func(r *http.Request) { r.RemoteAddr = address + ":4711" }
	}
	codes := map[int]int{}
	for range 30 {
		w := with(h, "GET", "/v1/models", "", header("Authorization", "Bearer wrong"), from("127.0.0.1"))
		codes[w.Code]++
		if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if codes[http.StatusUnauthorized] != 10 || codes[http.StatusTooManyRequests] != 20 {
		t.Errorf("%v", codes)
	}
	if w := post(h, "/login", url.Values{"key": {"wrong"}}, from("127.0.0.1")); !strings.Contains(w.Header().Get("Location"), "problem=limited") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := with(h, "POST", "/login", `{"key":"wrong"}`, from("127.0.0.1")); w.Code != http.StatusTooManyRequests {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"the right key of the same address": with(h, "GET", "/v1/models", "", header("Authorization", "Bearer "+key), from("127.0.0.1")),
		"the right key of another address":  with(h, "GET", "/v1/models", "", header("Authorization", "Bearer "+key), from("10.0.0.1")),
	} {
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if w := with(h, "GET", "/v1/models", "", header("Authorization", "Bearer wrong"), from("10.0.0.1")); w.Code != http.StatusUnauthorized {
		t.Errorf("another address: %d", w.Code)
	}
}
