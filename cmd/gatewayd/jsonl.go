package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
)

// lineProtocol is the version of the line protocol that docs/chat.md describes.
const lineProtocol = 1

const (
	maxFrame    = 8 << 20          // bytes of one line that are read; a longer one is passed over
	maxRequests = 64               // requests that are under way at once
	endsWithin  = 20 * time.Second // what a turn may take to write its last rows when the front end goes
	cutsWithin  = 3 * time.Second  // and what closing its connection may take after that
)

// front is one program that speaks lines with us. What it asks for is asked of the daemon; nothing is kept here but which
// conversation it means and which of its turns run.
type front struct {
	*client
	out *frames

	requests sync.WaitGroup
	slots    chan struct{}
	lost     chan error // the daemon went in the middle of a turn

	mu      sync.Mutex
	session string // meant where a request names none
	turns   map[*prompt]bool
	ending  bool
}

// jsonl speaks lines until the end of input, SIGTERM or the loss of the daemon. Nothing but frames is written to standard output,
// and the first one says that it is ready.
func (c *cli) jsonl(ctx context.Context, session string, args []string) error {
	if len(args) > 0 {
		return usagef("--jsonl takes no text: what is said comes as lines on standard input")
	}
	cl, err := c.dial()
	if err != nil {
		return err
	}
	if err := cl.call(ctx, http.MethodGet, "/api/status", nil, nil); err != nil {
		return err
	}
	if session != "" {
		if session, err = cl.reopen(ctx, session); err != nil {
			return err
		}
	}
	asked := make(chan os.Signal, 2)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // a front end that is gone is an error of writing, after which turns are ended in order
	defer signal.Stop(asked)
	return newFront(cl, c.std.out, session).speak(ctx, c.std.in, asked)
}

func newFront(cl *client, out io.Writer, session string) *front {
	return &front{client: cl, out: newFrames(out), slots: make(chan struct{}, maxRequests), lost: make(chan error, 1), session: session, turns: map[*prompt]bool{}}
}

// speak says that it is ready, answers lines, and ends what it began.
func (f *front) speak(ctx context.Context, in io.Reader, asked <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.notify("gateway.ready", map[string]any{
		"protocol": lineProtocol, "version": version, "pid": os.Getpid(), "daemon": f.addr(), "session": f.session, "methods": methodNames(), "max_line": maxFrame,
	})
	err := f.serve(ctx, frameLines(in), asked)
	f.end(ctx, cancel)
	return err
}

// serve takes lines until there is a reason to end. They are taken beside the wait for one: a front end that reads no more holds up
// an answer, and must not hold up the end.
func (f *front) serve(ctx context.Context, lines <-chan frameLine, asked <-chan os.Signal) error {
	read := make(chan struct{})
	go func() {
		for line := range lines {
			f.take(ctx, line)
		}
		if !mutation.On("end-of-input-is-ignored") {
			close(read)
		}
	}()
	select {
	case <-read:
	case <-asked:
	case <-f.out.broken:
	case err := <-f.lost:
		return errSaidElsewhere{err}
	}
	return nil
}

// errSaidElsewhere ends the verb with the code of its error, which a frame has told already.
type errSaidElsewhere struct{ error }

func (e errSaidElsewhere) Unwrap() error        { return e.error }
func (e errSaidElsewhere) Is(target error) bool { return target == errSaid }

// end stops the turns that run, waits for their last rows and for what was asked, both within bounds, and lets go of the rest.
func (f *front) end(ctx context.Context, cancel context.CancelFunc) {
	f.mu.Lock()
	f.ending = true
	var running []string
	for p := range f.turns {
		running = append(running, p.session)
	}
	f.mu.Unlock()
	if mutation.On("end-of-input-leaves-the-turn") {
		return
	}
	for _, session := range running {
		go f.stop(ctx, session)
	}
	if !f.over(endsWithin) {
		cancel() // the daemon ends a turn whose client is gone
		f.over(cutsWithin)
	}
}

func (f *front) over(bound time.Duration) bool {
	done := make(chan struct{})
	go func() { f.requests.Wait(); close(done) }()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// take answers one line. What needs the daemon is done beside, so that nothing holds up the next line.
func (f *front) take(ctx context.Context, line frameLine) {
	if line.cut {
		f.out.fail(nil, codeInvalidRequest, fmt.Sprintf("a line of more than %d bytes; nothing of it was taken", maxFrame))
		return
	}
	r, code, why := readRequest(line.text)
	if code != 0 {
		f.out.fail(r.ID, code, why)
		return
	}
	do, known := methods[r.Method]
	if !known {
		f.out.fail(r.ID, codeUnknownMethod, fmt.Sprintf("there is no method %.50q", r.Method))
		return
	}
	select {
	case f.slots <- struct{}{}:
	default:
		f.out.fail(r.ID, codeTooMany, fmt.Sprintf("%d requests are under way already", maxRequests))
		return
	}
	work, err := do(f, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending {
		return // nobody waits for it any more
	}
	f.requests.Go(func() {
		defer func() { <-f.slots }()
		var result any
		if err == nil {
			result, err = work(ctx)
		}
		f.answer(r, result, err)
	})
}

// answer sends a result or an error, unless the method has answered by itself, or nobody asked for an answer.
func (f *front) answer(r request, result any, err error) {
	switch {
	case err != nil:
		f.out.fail(r.ID, codeOf(err), textOf(err))
	case result != nil && r.ID != nil:
		f.out.send(map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": result})
	}
}

func (f *front) notify(method string, params map[string]any) {
	f.out.send(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

// frameLine is one line of input. cut: it was too long, and its text is not there.
type frameLine struct {
	text []byte
	cut  bool
}

// frameLines reads lines, each of which takes no more memory than the longest that is allowed.
func frameLines(in io.Reader) <-chan frameLine {
	lines := make(chan frameLine)
	go func() {
		defer close(lines)
		for r := bufio.NewReaderSize(in, 64<<10); ; {
			line, err := readFrame(r)
			if line.cut || len(bytes.TrimSpace(line.text)) > 0 {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

func readFrame(r *bufio.Reader) (line frameLine, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line.text)+len(part) > maxFrame {
			line.text, line.cut = nil, true
		}
		if !line.cut {
			line.text = append(line.text, part...)
		}
		if err != bufio.ErrBufferFull { //nolint:errorlint // bufio gives it itself
			return line, err
		}
	}
}

// frames writes one JSON object per line. It is safe for concurrent use; after the first error nothing more is written.
type frames struct {
	mu     sync.Mutex
	w      io.Writer
	err    error
	broken chan struct{} // closed at the first error: the front end reads no more
}

func newFrames(w io.Writer) *frames { return &frames{w: w, broken: make(chan struct{})} }

func (o *frames) send(frame map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	if o.err = jsonLine(o.w, frame); o.err != nil {
		close(o.broken)
	}
}

// fail sends an error; id is null where the request could not be read.
func (o *frames) fail(id json.RawMessage, code int, why string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	o.send(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": why}})
}

// request is one line of the front end.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// readRequest reads a line; code says what is wrong with it.
func readRequest(line []byte) (r request, code int, why string) {
	if !json.Valid(line) {
		return r, codeBadJSON, "the line is no JSON"
	}
	if err := json.Unmarshal(line, &r); err != nil || r.Method == "" {
		return r, codeInvalidRequest, "the line is no request: an object with method, and id and params where they are wanted"
	}
	if string(r.ID) == "null" {
		r.ID = nil
	}
	return r, 0, ""
}

// Codes of errors: JSON-RPC's own, and ours.
const (
	codeBadJSON        = -32700
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeDenied         = 4003
	codeNotFound       = 4004
	codeTurnRuns       = 4009
	codeConflict       = 4010
	codeTooMany        = 4029
	codeUnavailable    = 5003
	codeDaemonGone     = 5069
)

// codeByKind is the one place where a kind of trouble becomes a code; what is not listed is codeUnavailable.
var codeByKind = map[problem.Kind]int{
	problem.Invalid: codeInvalidParams, problem.NotFound: codeNotFound, problem.Conflict: codeConflict, problem.Denied: codeDenied,
	problem.Busy: codeTooMany, problem.NotRunning: codeDaemonGone, problem.Internal: codeInternal,
}

func codeOf(err error) int {
	if code, known := errors.AsType[apiCode](err); known && code == turnRunning {
		return codeTurnRuns
	}
	if _, usage := err.(usageError); usage { //nolint:errorlint // made by this package, never wrapped
		return codeInvalidParams
	}
	if code, known := codeByKind[problem.KindOf(err)]; known {
		return code
	}
	return codeUnavailable
}
