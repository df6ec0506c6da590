package config

import (
	"net"
	"time"

	"gatewayd/internal/problem"
)

// API is the HTTP listener.
type API struct {
	// Addr is HOST:PORT; port 0 takes a free one.
	Addr string `yaml:"addr" default:"127.0.0.1:8642" kind:"hostport"`
	// TLSCert and TLSKey are files in PEM; with both TLS is spoken.
	TLSCert string `yaml:"tls_cert" kind:"path"`
	TLSKey  string `yaml:"tls_key" kind:"path"`
	// InsecureBind says that an address that others reach is meant, although no TLS is spoken there.
	InsecureBind bool `yaml:"insecure_bind" default:"false"`
	// AllowedHosts are Host header names served beside localhost and the address itself.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// AllowedOrigins are browser origins ("https://host") that may call.
	AllowedOrigins []string `yaml:"allowed_origins" kind:"origin"`
	// MaxBodyBytes bounds a request's body.
	MaxBodyBytes int64 `yaml:"max_body_bytes" default:"10485760" min:"1024"`
	// MaxConcurrentTurns over all conversations; 0 is no limit.
	MaxConcurrentTurns int `yaml:"max_concurrent_turns" default:"0"`
	// MaxConcurrentRuns are those of /v1/runs that have not ended; 0 is no limit.
	MaxConcurrentRuns int `yaml:"max_concurrent_runs" default:"10" min:"0"`
	// KeepRuns is how long a run that has ended can be asked for.
	KeepRuns time.Duration `yaml:"keep_runs" default:"24h" min:"24h"`
	// KeepResponses is how long a stored response can be asked for.
	KeepResponses time.Duration `yaml:"keep_responses" default:"720h" min:"1h"`
	// MaxStreams that may be open at once, and MaxStreamsPerKey of those.
	MaxStreams       int `yaml:"max_streams" default:"2000" min:"1"`
	MaxStreamsPerKey int `yaml:"max_streams_per_key" default:"1000" min:"1"`
	// MaxConnections over TCP; the home's socket has no limit, so that a person always comes in.
	MaxConnections int `yaml:"max_connections" default:"4096" min:"16"`
}

// TLS reports whether TLS is spoken.
func (a API) TLS() bool { return a.TLSCert != "" }

// CheckBound refuses an address that others reach, unless TLS is spoken there or a person said that it is meant: the keys would cross the
// network for everybody to read. It is asked of the address that was bound, because a name says nothing.
func (a API) CheckBound(bound net.Addr) error {
	tcp, ok := bound.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() || a.TLS() || a.InsecureBind {
		return nil
	}
	return &problem.Error{
		Kind: problem.Config, Thing: "address " + bound.String(), What: "can be reached by others, and its keys would cross the network in the clear", Fate: "nothing was started",
		Remedy: "listen on 127.0.0.1, or give api.tls_cert and api.tls_key, or, where the way is safe by other means (a port published to loopback, a proxy with TLS), set api.insecure_bind: true (GATEWAYD_INSECURE_BIND=true)",
	}
}

// validateAPI wants both files or none.
func (l *loader) validateAPI() {
	if (l.API.TLSCert == "") != (l.API.TLSKey == "") {
		given, missing := "api.tls_cert", "api.tls_key"
		if l.API.TLSCert == "" {
			given, missing = missing, given
		}
		l.refuse(l.place(given)+": "+given, "is given without "+missing, "give both", nil)
	}
}
