package tool

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"gatewayd/internal/netguard"
	"gatewayd/reaper"
)

// Bounds of the client of MCP servers.
const (
	mcpFirst   = 3 * time.Second // what a session's first request waits for servers that were never reached yet
	mcpBackoff = time.Second     // before a server that ended is tried again; doubled up to mcpLongest
	mcpLongest = time.Minute
	mcpSettled = time.Minute // one that lived so long begins with mcpBackoff again
)

// PipedStarter is the part of reaper.Reaper by which servers are started.
type PipedStarter interface {
	StartPiped(ctx context.Context, spec reaper.Spec) (*reaper.Process, reaper.Pipes, error)
	Forget(id string) error
}

// MCPServer is one server as it is configured: a program, or an address.
type MCPServer struct {
	Argv    []string
	Env     []string // complete
	Dir     string
	URL     string
	Headers map[string]string

	Timeout, ConnectTimeout time.Duration
	Include, Exclude        []string // patterns of the server's own names
	Trust                   bool     // what it says of its tools is believed
	Secrets                 []string // never shown, wherever they turn up in its words
}

// MCPOptions configure the client. Servers and, for those that are programs, Starter are needed.
type MCPOptions struct {
	Servers map[string]MCPServer
	Starter PipedStarter
	Version string       // of this program, as servers are told
	Log     *slog.Logger // nil: slog.Default
}

// MCP is the client of all MCP servers of a gateway. Run reaches them and keeps them; their tools are what it has learned of them so
// far. It is safe for concurrent use.
type MCP struct {
	opts    MCPOptions
	servers []*mcpServer
	http    *http.Transport
}

// NewMCP makes the client and reaches nobody yet.
func NewMCP(opts MCPOptions) *MCP {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	// An address is the user's own, like that of the model: this machine and its networks are reached, a cloud's metadata is not.
	guard := netguard.Guard{AllowPrivate: true}
	m := &MCP{opts: opts, http: &http.Transport{
		DialContext: guard.DialContext, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: 90 * time.Second,
		ForceAttemptHTTP2: true,
	}}
	for _, name := range slices.Sorted(maps.Keys(opts.Servers)) {
		m.servers = append(m.servers, newMCPServer(name, opts.Servers[name], m))
	}
	return m
}

// Run reaches the servers, each on its own, and reaches them again when they are lost, until ctx ends. It returns when all have ended.
func (m *MCP) Run(ctx context.Context) error {
	defer m.http.CloseIdleConnections()
	var all sync.WaitGroup
	for _, s := range m.servers {
		all.Go(func() { s.keep(ctx) })
	}
	all.Wait()
	<-ctx.Done()
	return nil
}

// Tools gives the tools of all servers that were ever reached, sorted by name. It waits a moment for those that were not tried yet,
// within ctx: a session's list is made once.
func (m *MCP) Tools(ctx context.Context) []Tool {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, mcpFirst)
	defer cancel()
	var list []Tool
	taken := map[string]bool{}
	for _, s := range m.servers {
		select {
		case <-s.tried:
		case <-ctx.Done():
		}
		for _, t := range s.list() {
			if !taken[t.spec.Name] { // two servers whose names read alike when they are made safe
				taken[t.spec.Name] = true
				list = append(list, t)
			}
		}
	}
	slices.SortFunc(list, func(a, b Tool) int { return cmp.Compare(a.Spec().Name, b.Spec().Name) })
	return list
}

// MCPStatus is how one server stands.
type MCPStatus struct {
	Name   string     `json:"name"`
	State  string     `json:"state"` // connecting, connected, lost
	Reason string     `json:"reason,omitempty"`
	Since  time.Time  `json:"since"`
	Retry  *time.Time `json:"retry_at,omitempty"`
	Tools  int        `json:"tools"`
}

// Status gives one line for each server, by name.
func (m *MCP) Status() []MCPStatus {
	if m == nil {
		return nil
	}
	out := make([]MCPStatus, 0, len(m.servers))
	for _, s := range m.servers {
		out = append(out, s.status())
	}
	return out
}
