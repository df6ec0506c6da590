package conform

import (
	"bytes"
	"net/http"
)

// Recorder is a handler that gives what another answers to see. A body that was cut off is given as far as it came, with whole false.
type Recorder struct {
	http.Handler
	See func(r *http.Request, status int, header http.Header, body []byte, whole bool)
}

// ServeHTTP answers.
func (h Recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seen := &seen{ResponseWriter: w, status: http.StatusOK}
	whole := false
	defer func() { h.See(r, seen.status, w.Header(), seen.body.Bytes(), whole) }()
	h.Handler.ServeHTTP(seen, r)
	whole = true
}

// seen keeps what is written. Unwrap lets http.ResponseController find the real writer.
type seen struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	begun  bool
}

func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *seen) WriteHeader(status int) {
	if !s.begun {
		s.begun, s.status = true, status
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *seen) Write(p []byte) (int, error) {
	s.begun = true
	s.body.Write(p)
	return s.ResponseWriter.Write(p)
}
