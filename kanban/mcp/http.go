package mcp

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// DefaultMaxCalls is far more than the workers of one machine ask at once.
const DefaultMaxCalls = 32

// Handler answers /mcp. Who asks has been proved before: the handler around it checks Host, Origin and the token, and
// bounds each write to a client that does not read. A request beyond MaxCalls is answered 503 at once.
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
		streams.ServeHTTP(w, r)
	})
}

// serverKey is where the one server of a request stands: the library asks for it more than once.
type serverKey struct{}
