package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"gatewayd/gateway"
	"gatewayd/internal/problem"
)

func TestEveryRouteButHealthWantsTheKey(t *testing.T) {
	h, chat := plain(nil)
	keys := map[string]bool{
		"Bearer " + testKey: true, "bearer " + testKey: true, "BEARER   " + testKey + " ": true,
		"": false, "Bearer": false, "Bearer ": false, testKey: false, "Basic " + testKey: false, "Bearer " + testKey + "x": false,
		"Bearer " + testKey[:5]: false, "Bearer " + strings.ToUpper(testKey): false, "Bearer " + strings.Repeat("x", 1<<14): false,
	}
	for key, allowed := range keys {
		w := ask(h, "GET", "/v1/models", "", header("Authorization", key))
		if allowed && w.Code != http.StatusOK {
			t.Errorf("%.40q: %d", key, w.Code)
		}
		if !allowed {
			refused(t, w, http.StatusUnauthorized, "invalid_api_key")
			if w.Header().Get("WWW-Authenticate") == "" {
				t.Error("a 401 without WWW-Authenticate")
			}
		}
	}
	for i, route := range []string{
		"GET /health/detailed", "GET /metrics", "GET /v1/models", "GET /v1/models/x", "POST /v1/chat/completions", "GET /api/status", "GET /api/sessions",
		"GET /api/sessions/x", "GET /api/sessions/x/messages", "GET /api/search?q=x", "GET /api/boards", "POST /api/boards", "GET /api/boards/x",
		"GET /api/boards/x/tasks", "POST /api/boards/x/tasks", "GET /api/boards/x/tasks/y", "GET /api/boards/x/tasks/y/why",
	} {
		method, path, _ := strings.Cut(route, " ")
		w := ask(h, method, path, hello, header("Authorization", "Bearer wrong"), func(r *http.Request) { r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i) })
		refused(t, w, http.StatusUnauthorized, "invalid_api_key")
	}
	if len(chat.said) != 0 {
		t.Error("a wrong key was heard by the gateway")
	}
	for _, path := range []string{"/health", "/v1/health"} {
		if w := ask(h, "GET", path, "", header("Authorization", "")); w.Code != http.StatusOK || decoded(t, w)["status"] != "ok" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestADaemonWithoutKeyRefusesEverybody(t *testing.T) {
	h, _ := plain(func(o *Options) { o.Key = "" })
	for _, key := range []string{"", "Bearer", "Bearer ", "Bearer x"} {
		refused(t, ask(h, "GET", "/v1/models", "", header("Authorization", key)), http.StatusUnauthorized, "invalid_api_key")
	}
}

func TestOnlyOurHostsAreServed(t *testing.T) {
	cases := []struct {
		addr, host string
		want       bool
	}{
		{"127.0.0.1:8642", "127.0.0.1:8642", true},
		{"127.0.0.1:8642", "127.0.0.1:9000", true}, // a forwarded port
		{"127.0.0.1:8642", "localhost", true},
		{"127.0.0.1:8642", "LOCALHOST.:8642", true},
		{"127.0.0.1:8642", "[::1]:8642", true},
		{"127.0.0.1:8642", "127.9.9.9", true},
		{"127.0.0.1:8642", "box.example", true}, // allowed below
		{"127.0.0.1:8642", "evil.example", false},
		{"127.0.0.1:8642", "localhost.evil.example", false},
		{"127.0.0.1:8642", "127.0.0.1.nip.io", false},
		{"127.0.0.1:8642", "192.168.1.7:8642", false},
		{"127.0.0.1:8642", "[::1%25lo]:8642", false},
		{"127.0.0.1:8642", "", false},
		{"127.0.0.1:8642", "127.0.0.1@evil.example", false},
		{"192.168.1.7:8642", "192.168.1.7:8642", true},
		{"192.168.1.7:8642", "192.168.1.8:8642", false},
		{"0.0.0.0:8642", "192.168.1.7:8642", true},
		{"0.0.0.0:8642", "evil.example", false},
		{":8642", "[fd00::1]:8642", true},
		{"[::]:8642", "10.0.0.1", true},
	}
	for _, c := range cases {
		h, _ := plain(func(o *Options) { o.Addr, o.AllowedHosts = c.addr, []string{"Box.Example"} })
		for _, path := range []string{"/health", "/v1/models"} {
			w := ask(h, "GET", path, "", func(r *http.Request) { r.Host = c.host })
			if c.want && w.Code != http.StatusOK {
				t.Errorf("bound to %s, Host %q: %d", c.addr, c.host, w.Code)
			}
			if !c.want {
				refused(t, w, http.StatusForbidden, "host_not_allowed")
			}
		}
	}
}

func TestOnlyAllowedOriginsMayCall(t *testing.T) {
	h, chat := plain(func(o *Options) { o.AllowedOrigins = []string{"https://chat.example"} })
	cases := []struct {
		name    string
		headers map[string]string
		want    bool
	}{
		{"no browser", nil, true},
		{"same origin", map[string]string{"Origin": "http://127.0.0.1:8642"}, true},
		{"allowed", map[string]string{"Origin": "https://chat.example", "Sec-Fetch-Site": "cross-site"}, true},
		{"foreign", map[string]string{"Origin": "https://evil.example"}, false},
		{"foreign scheme", map[string]string{"Origin": "http://chat.example"}, false},
		{"another port of this machine", map[string]string{"Origin": "http://127.0.0.1:3000"}, false},
		{"null", map[string]string{"Origin": "null"}, false},
		{"a cross-site form", map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{"a sister site", map[string]string{"Sec-Fetch-Site": "same-site"}, false},
	}
	for _, c := range cases {
		set := func(r *http.Request) {
			for name, value := range c.headers {
				r.Header.Set(name, value)
			}
		}
		w := ask(h, "POST", "/v1/chat/completions", hello, set)
		if c.want && w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
		if !c.want {
			message, _ := refused(t, w, http.StatusForbidden, "origin_not_allowed")["message"].(string)
			named := c.headers["Origin"]
			if named == "" {
				named = "the browser calls this a " + c.headers["Sec-Fetch-Site"] + " request"
			}
			if !strings.Contains(message, named) {
				t.Errorf("%s: the answer does not say %q: %s", c.name, named, message)
			}
		}
		if origin := c.headers["Origin"]; origin != "" {
			if w := ask(h, "GET", "/v1/models", "", set); (w.Code == http.StatusOK) != c.want {
				t.Errorf("%s, reading: %d", c.name, w.Code)
			}
		}
		if allow := w.Header().Get("Access-Control-Allow-Origin"); (allow != "") != (c.name == "allowed") {
			t.Errorf("%s: Access-Control-Allow-Origin %q", c.name, allow)
		}
	}
	if len(chat.said) != 3 {
		t.Errorf("the gateway heard %d messages, want those of the three that may call", len(chat.said))
	}
}

func TestAPreflightOfAnAllowedOriginIsAnswered(t *testing.T) {
	h, _ := plain(func(o *Options) { o.AllowedOrigins = []string{"https://chat.example"} })
	preflight := func(origin string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header = http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,x-stainless-lang"}}
		}
	}
	w := ask(h, "OPTIONS", "/v1/chat/completions", "", preflight("https://chat.example"))
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Max-Age") != "600" || w.Header().Get("Access-Control-Allow-Headers") != "authorization,x-stainless-lang" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	refused(t, ask(h, "OPTIONS", "/v1/chat/completions", "", preflight("https://evil.example")), http.StatusForbidden, "origin_not_allowed")
}

func TestHeadersForBrowsers(t *testing.T) {
	h, _ := plain(nil)
	for _, path := range []string{"/health", "/nowhere"} {
		w := ask(h, "GET", path, "")
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cache-Control": "no-store"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s %s: %q", path, name, got)
			}
		}
	}
}

func TestWhatIsNotThereAnswersInTheEnvelope(t *testing.T) {
	h, _ := plain(nil)
	refused(t, ask(h, "GET", "/nowhere", ""), http.StatusNotFound, "not_found")
	refused(t, ask(h, "GET", "/v1/models/gpt-4o", ""), http.StatusNotFound, "model_not_found")
	w := ask(h, "DELETE", "/v1/chat/completions", "")
	refused(t, w, http.StatusMethodNotAllowed, "method_not_allowed")
	if allow := w.Header().Get("Allow"); allow != "POST" {
		t.Errorf("Allow: %q", allow)
	}
	refused(t, ask(h, "GET", "/api/boards", ""), http.StatusServiceUnavailable, "off")
	refused(t, ask(h, "GET", "/api/boards/x/tasks/y/why", ""), http.StatusServiceUnavailable, "off")
	refused(t, ask(h, "GET", "/metrics", ""), http.StatusServiceUnavailable, "off")
}

func TestAPanicIsAnErrorWithoutItsTrace(t *testing.T) {
	var log bytes.Buffer
	h, chat := plain(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	chat.say = func(context.Context, gateway.Say, func(gateway.Event)) (gateway.Result, error) {
		panic("secret detail")
	}
	for _, body := range []string{hello, strings.Replace(hello, "{", `{"stream":true,`, 1)} {
		log.Reset()
		w := ask(h, "POST", "/v1/chat/completions", body)
		refused(t, w, http.StatusInternalServerError, "internal_error")
		if strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), ".go:") {
			t.Errorf("told the client: %s", w.Body)
		}
		if !strings.Contains(log.String(), "secret detail") || !strings.Contains(log.String(), "guard_test.go") {
			t.Errorf("the log has no trace: %s", log.String())
		}
	}
}

func TestEachKindOfTroubleHasItsStatus(t *testing.T) {
	want := map[problem.Kind]int{
		problem.Invalid: 400, problem.NotFound: 404, problem.Conflict: 409, problem.Denied: 403, problem.Busy: 429, problem.Unavailable: 503, problem.Damaged: 503,
		problem.Full: 507, problem.Config: 500, problem.NotRunning: 503, problem.Restart: 503, problem.Interrupted: 503, problem.Internal: 500, "new kind": 500,
	}
	types := map[int]string{400: "invalid_request_error", 404: "invalid_request_error", 409: "invalid_request_error", 403: "permission_error", 429: "rate_limit_error"}
	for kind, status := range want {
		h, chat := plain(nil)
		chat.say = func(context.Context, gateway.Say, func(gateway.Event)) (gateway.Result, error) {
			return gateway.Result{}, &problem.Error{Kind: kind, Thing: "the thing", What: "is what it is", Err: errors.New("cause")}
		}
		w := ask(h, "POST", "/v1/chat/completions", hello)
		inner, _ := decoded(t, w)["error"].(map[string]any)
		wantType := types[status]
		if wantType == "" {
			wantType = "server_error"
		}
		if w.Code != status || inner["type"] != wantType {
			t.Errorf("%s: %d %v", kind, w.Code, inner)
		}
		if told := strings.Contains(w.Body.String(), "the thing"); told == (kind == problem.Internal) {
			t.Errorf("%s: told %s", kind, w.Body)
		}
		if wait := w.Header().Get("Retry-After"); (wait != "") != (kind == problem.Busy || kind == problem.Unavailable || kind == problem.NotRunning || kind == problem.Restart) {
			t.Errorf("%s: Retry-After %q", kind, wait)
		}
	}
	h, chat := plain(nil)
	chat.say = func(context.Context, gateway.Say, func(gateway.Event)) (gateway.Result, error) {
		return gateway.Result{}, errors.New("open /home/someone/secret: no")
	}
	w := ask(h, "POST", "/v1/chat/completions", hello)
	refused(t, w, http.StatusInternalServerError, "internal_error")
	if strings.Contains(w.Body.String(), "someone") {
		t.Errorf("a bare error's words reached the client: %s", w.Body)
	}
}
