package main

import (
	"io"
	"os"
	"sync"

	"gatewayd/internal/problem"
)

// printed is standard output that remembers its first failure: what was asked for and could not be written is a failure of
// the verb, and a script that writes into a full disk must not take it for an answer.
type printed struct {
	io.Writer
	mu  sync.Mutex
	err error
}

func (p *printed) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.err == nil {
			p.err = err
		}
	}
	return n, err
}

// failure is what a verb that went well otherwise ends with.
func (p *printed) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return nil
	}
	return &problem.Error{Kind: problem.Unavailable, Thing: "standard output", What: "could not be written", Fate: "what was asked for is done, and not shown in full", Err: p.err}
}

// terminalOf gives the file behind a stream, when there is one.
func terminalOf(stream any) (*os.File, bool) {
	if p, ok := stream.(*printed); ok {
		stream = p.Writer
	}
	f, ok := stream.(*os.File)
	return f, ok
}
