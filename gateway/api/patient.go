package api

import (
	"net/http"
	"time"
)

// patientAnswer gives each write of a long answer its own time. The server has no bound for a whole answer, because a stream may be
// long; a client that does not read would otherwise hold its connection, and the board that is behind it, for ever.
func (s *server) patientAnswer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&patientWriter{w, http.NewResponseController(w), s.Patience}, r)
	})
}

type patientWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

// Unwrap lets http.ResponseController find the real writer.
func (p *patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *patientWriter) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.patience)) // only a test's recorder has none
	return p.ResponseWriter.Write(b)
}

// Flush sends what is written.
func (p *patientWriter) Flush() { _ = p.control.Flush() }
