package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// MaxHeader is how large the head of a request may be before net/http closes the connection without our words.
	MaxHeader = 256 << 10

	headerMost = 32 << 10 // what gets an answer in words beyond that; a browser's largest is a quarter
	drainMost  = 32 << 20 // of a body that nobody wanted; who sends more is cut off
)

// boundHeader refuses a head that no client of ours has.
func (s *server) boundHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := len(r.RequestURI)
		for name, values := range r.Header {
			for _, value := range values {
				size += len(name) + len(value) + len(": \r\n")
			}
		}
		if size > headerMost {
			s.fail(w, r, &refusal{
				status: http.StatusRequestHeaderFieldsTooLarge, code: "headers_too_large",
				message: fmt.Sprintf("the address and the headers have %d bytes; %d are read", size, headerMost),
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// boundBody gives a body its time to arrive, whoever reads it, and reads what the handler left of it: a client that is refused while it still
// sends would be cut off and never see why. Once the whole body was read, net/http lifts the bound to listen for the client's going, so that a
// turn may take as long as it likes; a timeout of the whole server would cut it off.
func (s *server) boundBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(s.BodyTime)) // only a test's recorder has none
		inner := r.WithContext(context.WithValue(r.Context(), writerKey{}, control))
		next.ServeHTTP(w, inner)
		if r.Header.Get("Expect") == "" && r.ContentLength <= drainMost { // who waits to be asked for the body is not asked
			_, _ = io.CopyN(io.Discard, r.Body, drainMost)
		}
	})
}
