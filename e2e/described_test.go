package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"gatewayd/gateway/api/openapi/conform"
)

// described holds what the daemons of the suites answer against their own description. It stands in front of the transport
// that the suites use.
type described struct {
	http.RoundTripper

	mu      sync.Mutex
	checker *conform.Checker
	list    map[string]bool // what was answered otherwise than described
}

// RoundTrip passes on, and has the answer of a daemon looked at when its body has come to its end.
func (d *described) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.RoundTripper.RoundTrip(r)
	if err != nil || response.Header.Get("X-Frame-Options") == "" || r.Method == http.MethodHead || r.URL.Path == "/openapi.json" {
		return response, err // what is not a daemon sends no such header
	}
	response.Body = &looked{ReadCloser: response.Body, done: func(body []byte, whole bool) { d.look(r, response, body, whole) }}
	return response, nil
}

func (d *described) look(r *http.Request, response *http.Response, body []byte, whole bool) {
	if !whole && !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.checker == nil {
		d.checker = d.read(r.URL.Scheme + "://" + r.URL.Host)
	}
	if d.checker == nil {
		return // it has ended meanwhile; the next one is asked
	}
	if err := d.checker.Answer(r.Method, r.URL.Path, response.StatusCode, response.Header, body); err != nil {
		what, _, _ := strings.Cut(err.Error(), " in {")
		d.list[what] = true
	}
}

// read asks a daemon for its description; all that the suites start are of one build.
func (d *described) read(base string) *conform.Checker {
	r, err := http.NewRequest(http.MethodGet, base+"/openapi.json", nil)
	if err != nil {
		return nil
	}
	response, err := d.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var document json.RawMessage
	if json.NewDecoder(response.Body).Decode(&document) != nil {
		return nil
	}
	checker, err := conform.New(document)
	if err != nil {
		return nil
	}
	return checker
}

// tell reports whether everything was answered as described.
func (d *described) tell() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range d.list {
		fmt.Fprintln(os.Stderr, "not as described:", line)
	}
	return len(d.list) == 0
}

// looked keeps a body while it is read.
type looked struct {
	io.ReadCloser
	kept  bytes.Buffer
	ended bool
	done  func(body []byte, whole bool)
}

// Read reads on.
func (l *looked) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.kept.Write(p[:n])
	l.ended = l.ended || err == io.EOF
	return n, err
}

// Close ends the body.
func (l *looked) Close() error {
	if l.done != nil {
		l.done(l.kept.Bytes(), l.ended)
		l.done = nil
	}
	return l.ReadCloser.Close()
}
