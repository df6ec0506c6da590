package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatewayd/gateway/api"
)

func get(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAStaticFileIsKeptForEverUnderTheHashOfItsContent(t *testing.T) {
	h := New(Options{})
	url := readAssets().url("page.css")
	first := get(h, url)
	if first.Code != http.StatusOK || !strings.Contains(first.Header().Get("Cache-Control"), "immutable") {
		t.Fatalf("%s: %d %q", url, first.Code, first.Header().Get("Cache-Control"))
	}
	if again := get(h, url, "If-None-Match", first.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Fatalf("asked again: %d with %d bytes", again.Code, again.Body.Len())
	}
	if plain := get(h, "/static/page.css"); plain.Header().Get("Cache-Control") != "no-cache" {
		t.Fatalf("without a hash: %q", plain.Header().Get("Cache-Control"))
	}
}

func TestLoginSendsNobodyToAnotherHost(t *testing.T) {
	for next, want := range map[string]string{
		"/boards/x?q=1": "/boards/x?q=1", "//evil.example/": "/", "https://evil.example": "/", `/\evil.example`: "/", "/a\nb": "/", "": "/", "javascript:alert(1)": "/",
	} {
		if got := api.LocalPath(next); got != want {
			t.Errorf("next %q goes to %q, not %q", next, got, want)
		}
	}
}
