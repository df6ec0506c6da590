package api

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
)

// secureHeaders are for browsers that come here although nothing is theirs.
func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// guard turns a panic into a 500 without a trace for the client. An answer that has begun is cut off instead, so that nobody takes it for
// whole.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // the value that net/http itself compares
				panic(p)
			}
			s.Log.Error("request panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			if watched, ok := w.(*watcher); ok && watched.status != 0 {
				panic(http.ErrAbortHandler)
			}
			s.fail(w, r, &refusal{status: http.StatusInternalServerError, code: "internal_error", message: internalMessage})
		}()
		next.ServeHTTP(w, r)
	})
}

// watcher remembers the status. Unwrap lets http.ResponseController find the real writer.
type watcher struct {
	http.ResponseWriter
	status int
}

func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watcher) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// observe counts and logs requests. It is outermost, so refusals of every layer are seen.
func (s *server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watched := &watcher{ResponseWriter: w}
		start := time.Now()
		defer func() {
			route := chi.RouteContext(r.Context()).RoutePattern()
			took := time.Since(start)
			s.metrics.request(route, r.Method, watched.status, took)
			s.Log.Debug("http request", "method", r.Method, "path", r.URL.Path, "status", watched.status, "took", took)
		}()
		next.ServeHTTP(watched, r)
	})
}
