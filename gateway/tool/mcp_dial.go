package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatewayd/internal/netguard"
	"gatewayd/reaper"
)

// maxFrame bounds one message of a server.
const maxFrame = 8 << 20

// dial makes the way to the server. end takes it down, and returns when nothing of a program is left.
func (s *mcpServer) dial(ctx context.Context) (mcp.Transport, func(), error) {
	if s.conf.URL != "" {
		client := &http.Client{
			Transport:     withHeaders{s.of.http, s.conf.Headers},
			CheckRedirect: func(*http.Request, []*http.Request) error { return netguard.ErrRedirect }, // headers are for this address alone
		}
		return &mcp.StreamableClientTransport{Endpoint: s.conf.URL, HTTPClient: client, MaxRetries: 2, MaxEventSize: maxFrame}, func() {}, nil
	}
	return s.startProgram(ctx)
}

// withHeaders adds the configured headers to each request.
type withHeaders struct {
	next    http.RoundTripper
	headers map[string]string
}

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range w.headers {
		r.Header.Set(name, value)
	}
	answer, err := w.next.RoundTrip(r)
	if err == nil && !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") { // whose events are bounded one by one
		answer.Body = &atMost{answer.Body, maxFrame}
	}
	return answer, err
}

var errTooLarge = fmt.Errorf("it sent a message of more than %d MiB", maxFrame>>20)

// atMost is a body that nobody reads into memory for longer than a message may be.
type atMost struct {
	io.ReadCloser
	left int
}

func (b *atMost) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// startProgram starts a server under a keeper, which ends its whole tree with the daemon.
func (s *mcpServer) startProgram(ctx context.Context) (mcp.Transport, func(), error) {
	if s.of.opts.Starter == nil {
		return nil, nil, errors.New("programs cannot be started here")
	}
	id, err := newMCPKeeperID()
	if err != nil {
		return nil, nil, err
	}
	process, pipes, err := s.of.opts.Starter.StartPiped(ctx, reaper.Spec{ID: id, Argv: s.conf.Argv, Dir: s.conf.Dir, Env: s.conf.Env, Grace: mcpGrace})
	if err != nil {
		return nil, nil, err
	}
	var errs sync.WaitGroup
	errs.Go(func() { _, _ = io.Copy(s.said, pipes.Err) })
	end := func() {
		_ = pipes.In.Close() // the polite way to ask a server to end
		process.Stop(mcpGrace)
		<-process.Done()
		_ = pipes.Close()
		errs.Wait()
		if err := s.of.opts.Starter.Forget(id); err != nil {
			s.log.Warn("exit record of an MCP server not removed", "run", id, "error", err)
		}
	}
	return &mcp.IOTransport{Reader: newFrames(pipes.Out, s.said, s.blame), Writer: pipes.In, MaxLineLength: maxFrame}, end, nil
}

// frames lets only lines through that are messages. Many programs greet whoever starts them on their standard output; such a line goes
// to the program's other words instead of ending the connection. A message that is too large ends it: who waits for it would wait in vain.
type frames struct {
	from *bufio.Reader
	io.Closer
	strays io.Writer
	rest   []byte
	broke  func(error) // told why the connection ends
}

func newFrames(from io.ReadCloser, strays io.Writer, broke func(error)) *frames {
	return &frames{from: bufio.NewReaderSize(from, 64<<10), Closer: from, strays: strays, broke: broke}
}

func (f *frames) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		line, err := f.line()
		if err != nil {
			return 0, err
		}
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(trimmed) {
			f.rest = append(trimmed, '\n')
			continue
		}
		_, _ = f.strays.Write(line)
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// line reads one line. Of one that is too long the beginning is kept, unless it is a message.
func (f *frames) line() ([]byte, error) {
	var line []byte
	for {
		part, err := f.from.ReadSlice('\n')
		if len(line) <= maxFrame {
			line = append(line, part...)
		}
		switch {
		case len(line) > maxFrame && line[0] == '{':
			f.broke(errTooLarge)
			return nil, errTooLarge
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case len(line) > 0 && errors.Is(err, io.EOF):
			return line, nil
		default:
			return nil, fmt.Errorf("read from server: %w", err)
		}
	}
}
