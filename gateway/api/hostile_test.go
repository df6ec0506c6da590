package api

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatewayd/gateway/keys"
)

// listening serves a handler as the daemon does, with what a test changes.
func listening(t *testing.T, h http.Handler, change func(*http.Server)) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config = Server(h, log.New(io.Discard, "", 0))
	if change != nil {
		change(server.Config)
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// raw sends bytes and gives all that comes back before the connection ends or the answer is whole.
func raw(t *testing.T, address, request string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Logf("write: %v", err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer, string(body)
}

func TestHostileRequestsAreRefused(t *testing.T) {
	h, chat := plain(nil)
	at := listening(t, h, nil)
	key := "Authorization: Bearer " + testKey + "\r\n"
	host := "Host: 127.0.0.1\r\n"
	evil := strings.Repeat("GET /api/keys HTTP/1.1\r\n", 1)
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"a rebound name":                {"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n" + key + "\r\n", 403},
		"no host":                       {"GET /v1/models HTTP/1.1\r\n" + key + "\r\n", 400},
		"two hosts":                     {"GET /v1/models HTTP/1.1\r\n" + host + "Host: evil.example\r\n" + key + "\r\n", 400},
		"no host, HTTP/1.0":             {"GET /v1/models HTTP/1.0\r\n" + key + "\r\n", 403},
		"another host in the address":   {"GET http://evil.example/v1/models HTTP/1.1\r\n" + host + key + "\r\n", 403},
		"our host in the address":       {"GET http://127.0.0.1/v1/models HTTP/1.1\r\nHost: evil.example\r\n" + key + "\r\n", 200}, // the address counts, as the standard says
		"a proxy request":               {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n" + key + "\r\n", 403},
		"origin null":                   {"GET /v1/models HTTP/1.1\r\n" + host + key + "Origin: null\r\n\r\n", 403},
		"another origin":                {"POST /v1/chat/completions HTTP/1.1\r\n" + host + key + "Origin: http://127.0.0.1:3000\r\nContent-Length: 2\r\n\r\n{}", 403},
		"length and chunks":             {"POST /api/boards HTTP/1.1\r\n" + host + key + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil, 503}, // the chunks count, as the standard says
		"two lengths":                   {"POST /api/boards HTTP/1.1\r\n" + host + key + "Content-Length: 4\r\nContent-Length: 5\r\n\r\n{}  ", 400},
		"a length that is none":         {"POST /api/boards HTTP/1.1\r\n" + host + key + "Content-Length: +2\r\n\r\n{}", 400},
		"chunks in an odd coat":         {"POST /api/boards HTTP/1.1\r\n" + host + key + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
		"a header with a space":         {"GET /v1/models HTTP/1.1\r\n" + host + "Authorization : Bearer " + testKey + "\r\n\r\n", 400},
		"a folded header":               {"GET /v1/models HTTP/1.1\r\n" + host + "Authorization: Bearer\r\n " + testKey + "\r\n\r\n", 200},
		"a zero byte":                   {"GET /v1/models HTTP/1.1\r\n" + host + "Cookie: gatewayd=\x00\r\n\r\n", 400},
		"two keys, the first is wrong":  {"GET /v1/models HTTP/1.1\r\n" + host + "Authorization: Bearer wrong\r\n" + key + "\r\n", 401},
		"a key in the address":          {"GET /v1/models?api_key=" + testKey + "&key=" + testKey + " HTTP/1.1\r\n" + host + "\r\n", 401},
		"a key as a cookie":             {"GET /v1/models HTTP/1.1\r\n" + host + "Cookie: gatewayd=" + testKey + "\r\n\r\n", 401},
		"a door that nobody came by":    {"GET /api/keys HTTP/1.1\r\n" + host + "X-Door: socket\r\nX-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\n\r\n", 401},
		"another method by a header":    {"POST /v1/models HTTP/1.1\r\n" + host + key + "X-HTTP-Method-Override: GET\r\nContent-Length: 0\r\n\r\n", 405},
		"dots to an open path":          {"GET /static/../api/keys HTTP/1.1\r\n" + host + "\r\n", 404},
		"slashes to a closed one":       {"GET //api/keys HTTP/1.1\r\n" + host + "\r\n", 404},
		"an escaped way":                {"GET /health/%2e%2e/api/keys HTTP/1.1\r\n" + host + "\r\n", 404},
		"no HTTP":                       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
		"an upgrade":                    {"GET /v1/models HTTP/1.1\r\n" + host + key + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200},
		"a preface of HTTP/2":           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 403},
		"headers of 40 kB":              {"GET /v1/models HTTP/1.1\r\n" + host + key + "X-Long: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", 431},
		"ten thousand headers":          {"GET /v1/models HTTP/1.1\r\n" + host + key + strings.Repeat("X-Many: 1\r\n", 10_000) + "\r\n", 431},
		"an address of 100 kB":          {"GET /v1/models?" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\n" + host + key + "\r\n", 431},
		"a range of cookies":            {"GET /v1/models HTTP/1.1\r\n" + host + "Cookie: " + strings.Repeat("gatewayd=x; ", 2000) + "\r\n\r\n", 401},
		"a body that never comes whole": {"POST /login HTTP/1.1\r\n" + host + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
	} {
		answer, body := raw(t, at, c.request)
		if answer == nil || answer.StatusCode != c.status {
			t.Errorf("%s: want %d, got %v %.300s", name, c.status, answer, body)
		}
	}
	if len(chat.said) != 0 {
		t.Error("one of them was heard")
	}
}

func TestAHeadThatIsTooLargeIsRefusedInWords(t *testing.T) {
	h, _ := plain(nil)
	at := listening(t, h, nil)
	answer, body := raw(t, at, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 40<<10)+"\r\n\r\n")
	if answer == nil || answer.StatusCode != 431 || !strings.Contains(body, `"headers_too_large"`) || !strings.Contains(body, "32768") {
		t.Errorf("%v %s", answer, body)
	}
	answer, body = raw(t, at, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 2*MaxHeader)+"\r\n\r\n")
	if answer != nil && answer.StatusCode != 431 {
		t.Errorf("%v %s", answer, body)
	}
}

func TestAHeadThatComesSlowlyLosesItsConnection(t *testing.T) {
	h, _ := plain(nil)
	at := listening(t, h, func(s *http.Server) {
		if s.ReadHeaderTimeout <= 0 || s.IdleTimeout <= 0 {
			t.Errorf("%v %v", s.ReadHeaderTimeout, s.IdleTimeout)
		}
		s.ReadHeaderTimeout = 200 * time.Millisecond
	})
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\nX-")
	begun := time.Now()
	if _, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it was held for %v", took)
	}
}

// A client that sends all before it reads anything must still see why it was refused.
func TestABodyThatIsTooLargeIsAnsweredAndNotReset(t *testing.T) {
	h, _ := plain(nil)
	at := listening(t, h, nil)
	body := bytes.Repeat([]byte("x"), 11<<20)
	for name, head := range map[string]string{
		"with its length": fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)), "in chunks": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(body)),
	} {
		answer, text := raw(t, at, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+testKey+"\r\nContent-Type: application/json\r\n"+head+string(body)+map[bool]string{true: "\r\n0\r\n\r\n"}[name == "in chunks"])
		if answer == nil || answer.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(text, "body_too_large") {
			t.Errorf("%s: %v %.200s", name, answer, text)
		}
	}
}

func TestStreamsAreBoundedByKeyAndInAll(t *testing.T) {
	p := &places{most: 3, mostOfKey: 2}
	var free []func()
	for _, c := range []struct {
		key  string
		full string
	}{{"a", ""}, {"a", ""}, {"a", "under this key"}, {"b", ""}, {"b", "api.max_streams)"}} {
		give, full := p.take(c.key)
		if (full == "") != (c.full == "") || !strings.Contains(full, c.full) {
			t.Errorf("%s: %q", c.key, full)
		}
		if give != nil {
			free = append(free, give)
		}
	}
	for _, give := range free {
		give()
	}
	if p.all != 0 || len(p.ofKey) != 0 {
		t.Errorf("%+v", p)
	}
}

func TestAStreamEndsWithItsKeyAndWithItsLogin(t *testing.T) {
	store, err := keys.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	house := newHouse(t, func(o *Options) {
		o.Key, o.Keys, o.Page = "", store, http.NotFoundHandler()
		o.MaxStreamsPerKey = 2
	})
	key := newKey(t, store, "laptop", keys.Chat)
	keyed := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) }
	ok := func(method, path, body string, change ...func(*http.Request)) *http.Response {
		r, err := http.NewRequestWithContext(bounded(t), method, house.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for _, c := range change {
			c(r)
		}
		answer, err := house.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	if a := ok("POST", "/api/sessions", `{"id":"s"}`, keyed); a.StatusCode != http.StatusCreated {
		t.Fatal(a.Status)
	}
	login := ok("POST", "/login", `{"key":"`+key+`"}`).Cookies()[0]
	cooked := func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: login.Name, Value: login.Value})
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	byKey, byLogin := ok("GET", "/api/sessions/s/events", "", keyed), ok("GET", "/api/sessions/s/events", "", cooked)
	if byKey.StatusCode != http.StatusOK || byLogin.StatusCode != http.StatusOK {
		t.Fatal(byKey.Status, byLogin.Status)
	}
	if a := ok("GET", "/api/sessions/s/events", "", keyed); a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("a third stream: %s", a.Status)
	}
	ok("POST", "/logout", "", cooked)
	if _, err := io.Copy(io.Discard, byLogin.Body); err != nil { // it comes to its end
		t.Logf("the login's stream ended: %v", err)
	}
	if _, err := store.Remove("laptop"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, byKey.Body); err != nil {
		t.Logf("the key's stream ended: %v", err)
	}
}
