package tools

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatewayd/internal/netguard"
)

func TestAFileIsFetchedFromPublicAddressesOnly(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked++; fmt.Fprint(w, "secret of this machine") }))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for _, address := range []string{
		"http://127.0.0.1:" + port, "http://localhost:" + port, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port,
		"http://2130706433:" + port, "http://127.1:" + port, "http://[64:ff9b::7f00:1]:" + port,
		"http://169.254.169.254/latest/meta-data/", "http://[fe80::1%25lo]:" + port,
	} {
		if file, err := (*Fetcher)(nil).Get(t.Context(), address); err == nil {
			_ = file.Body.Close()
			t.Errorf("%s was fetched", address)
		} else if !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if asked > 0 {
		t.Errorf("%d requests arrived", asked)
	}
	for _, address := range []string{"file:///etc/passwd", "ftp://example.com/x", "example.com/x", "http://ann:pw@example.com/", "http://", "gopher://127.0.0.1"} {
		if _, err := (*Fetcher)(nil).Get(t.Context(), address); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Each address of a chain of redirects is judged, at most five are followed, and a file has its bound.
func TestRedirectsAreFollowedFiveTimesAndJudgedEachTime(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/hop/{n}", func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscan(r.PathValue("n"), &n)
		if n == 0 {
			w.Header().Set("Content-Disposition", `attachment; filename="report.txt"`)
			fmt.Fprint(w, "0123456789")
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/hop/%d", n-1), http.StatusFound)
	})
	mux.HandleFunc("/inside", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/gone", http.NotFound)
	server := httptest.NewServer(mux)
	defer server.Close()
	f := &Fetcher{Guard: netguard.Guard{AllowPrivate: true}, MaxBytes: 10}

	file, err := f.Get(t.Context(), server.URL+"/hop/5")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(file.Body)
	_ = file.Body.Close()
	if string(text) != "0123456789" || err != nil || file.Filename != "report.txt" || !strings.HasPrefix(file.ContentType, "text/plain") {
		t.Errorf("%q %v %+v", text, err, file)
	}
	for path, why := range map[string]string{"/hop/6": "more than 5", "/inside": "not a public one", "/file": "not a public one", "/gone": "404"} {
		if _, err := f.Get(t.Context(), server.URL+path); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", path, err)
		}
	}
	f.MaxBytes = 9
	if _, err := f.Get(t.Context(), server.URL+"/hop/0"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("announced too large: %v", err)
	}
}

// A server that announces nothing and sends for ever is cut off by the bound.
func TestAFileWithoutALengthIsBoundedToo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	file, err := (&Fetcher{Guard: netguard.Guard{AllowPrivate: true}, MaxBytes: 1 << 20}).Get(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Body.Close()
	if n, err := io.Copy(io.Discard, file.Body); err == nil || n > 1<<20 || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%d bytes, %v", n, err)
	}
}
