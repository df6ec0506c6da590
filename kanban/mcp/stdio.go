package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve speaks the protocol over a pair of streams, one message a line, until in ends or ctx does. Nothing but the protocol
// is written to out. Calls that are under way when in ends are answered first: a client that has asked for its last change
// and closed its side wants to know what became of it.
func Serve(ctx context.Context, opts Options, in io.Reader, out io.Writer) error {
	server := newServer(opts.Desk, opts.Version)
	err := server.Run(ctx, polite{&mcp.IOTransport{Reader: io.NopCloser(in), Writer: keepOpen{out}, MaxLineLength: MaxMessage}})
	if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// keepOpen leaves the stream to the process.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// polite is a transport that says that its input has ended only when all that was asked has been answered. The library cancels what
// is under way at that word.
type polite struct{ mcp.Transport }

func (p polite) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := p.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &politeConn{Connection: c, owed: map[jsonrpc.ID]bool{}, paid: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

// answerTime is how long the end of the input waits for answers: longer than the slowest call, which fetches a file.
const answerTime = 90 * time.Second

type politeConn struct {
	mcp.Connection
	mu     sync.Mutex
	owed   map[jsonrpc.ID]bool
	paid   chan struct{} // holds a word when an answer was written
	once   sync.Once
	closed chan struct{}
}

func (c *politeConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	if request, ok := message.(*jsonrpc.Request); ok && err == nil && request.IsCall() {
		c.mu.Lock()
		c.owed[request.ID] = true
		c.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		c.settle(ctx)
	}
	return message, err
}

// settle waits for the answers that are owed, unless nobody wants them any more.
func (c *politeConn) settle(ctx context.Context) {
	late := time.NewTimer(answerTime)
	defer late.Stop()
	for c.owes() {
		select {
		case <-c.paid:
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		case <-late.C:
			return
		}
	}
}

func (c *politeConn) owes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.owed) > 0
}

func (c *politeConn) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if response, ok := message.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.owed, response.ID)
		c.mu.Unlock()
		select {
		case c.paid <- struct{}{}:
		default:
		}
	}
	return err
}

func (c *politeConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
