package mcp

import (
	"context"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// DefaultMaxCalls is far more than the workers of one machine ask at once.
	DefaultMaxCalls = 32
	// patience is how long one write to a client that does not read may take.
	patience = 60 * time.Second
)

// Handler answers /mcp. Who asks has been proved before: the handler around it checks Host, Origin and the token. A request
// beyond MaxCalls is answered 503 at once.
func Handler(opts Options) http.Handler {
	if opts.MaxCalls <= 0 {
		opts.MaxCalls = DefaultMaxCalls
	}
	places := make(chan struct{}, opts.MaxCalls)
	streams := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if made, ok := r.Context().Value(serverKey{}).(*mcp.Server); ok {
			return made
		}
		return nil
	}, &mcp.StreamableHTTPOptions{
		Stateless: true, MaxRequestBodyBytes: MaxMessage, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // the API has its own check of Host, which knows the names it was given
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many calls are under way; nothing was changed; try again", http.StatusServiceUnavailable)
			return
		}
		desk := opts.Desk
		if opts.Run != nil {
			desk.Worker = opts.Run(r.Context())
		}
		server := newServer(desk, opts.Version)
		r = r.WithContext(context.WithValue(r.Context(), serverKey{}, server))
		streams.ServeHTTP(&patient{ResponseWriter: w}, r)
	})
}

// serverKey is where the one server of a request stands: the library asks for it more than once.
type serverKey struct{}

// patient gives each write its own time. The HTTP server has no bound for a whole answer, because a stream may be long.
type patient struct{ http.ResponseWriter }

func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *patient) Write(b []byte) (int, error) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(patience)) // only a test's recorder has none
	return p.ResponseWriter.Write(b)
}

func (p *patient) Flush() { _ = http.NewResponseController(p.ResponseWriter).Flush() }
