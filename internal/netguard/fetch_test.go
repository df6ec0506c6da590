package netguard

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestWhatIsFetchedIsBoundedAndItsRedirectsAreJudged(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/picture", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" || r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" {
			t.Errorf("it says who asks: %v", r.Header)
		}
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write([]byte("0123456789"))
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	mux.Handle("/near", http.RedirectHandler("/picture", http.StatusFound))
	mux.Handle("/inside", http.RedirectHandler("http://169.254.169.254/latest", http.StatusFound))
	mux.Handle("/file", http.RedirectHandler("file:///etc/passwd", http.StatusFound))
	mux.Handle("/round", http.RedirectHandler("/round", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	g, b := Guard{AllowPrivate: true}, Bounds{Bytes: 10, Time: 20 * time.Second}
	for _, path := range []string{"/picture", "/near"} {
		if kind, data, err := g.Get(t.Context(), server.URL+path, b); err != nil || kind != "image/png" || string(data) != "0123456789" {
			t.Errorf("%s: %q %q %v", path, kind, data, err)
		}
	}
	for path, want := range map[string]error{"/endless": ErrTooLarge, "/inside": ErrRefused, "/file": ErrRefused, "/round": ErrRedirects} {
		if _, data, err := g.Get(t.Context(), server.URL+path, b); !errors.Is(err, want) {
			t.Errorf("%s: %d bytes, %v", path, len(data), err)
		}
	}
	if _, _, err := g.Get(t.Context(), server.URL+"/picture", Bounds{Bytes: 9, Time: time.Minute}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("announced too large: %v", err)
	}
	for _, address := range []string{"file:///etc/passwd", "ftp://example.com/x", "example.com/x", "http://ann:pw@example.com/", "http://", "gopher://127.0.0.1", "http://a b/"} {
		if _, _, err := g.Get(t.Context(), address, b); !errors.Is(err, ErrAddress) || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, _, err := (Guard{}).Get(t.Context(), server.URL+"/picture", b); !errors.Is(err, ErrRefused) {
		t.Errorf("this machine: %v", err)
	}
	missing := &StatusError{}
	if _, _, err := g.Get(t.Context(), server.URL+"/nothing", b); !errors.As(err, &missing) {
		t.Error(err)
	}
}
