package api

import (
	"log"
	"net/http"
	"time"
)

const (
	headTime = 10 * time.Second // for the head of a request: who sends it byte by byte holds a descriptor and nothing else
	idleTime = 2 * time.Minute  // between requests
)

// Server gives the server that the handler needs: with bounds on everything that a client may keep waiting, and without one on an answer, which
// may stream for half an hour. A nil log is the standard one.
func Server(h http.Handler, log *log.Logger) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: MaxHeader, ErrorLog: log}
}
