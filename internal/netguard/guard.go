package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"gatewayd/internal/mutation"
)

const (
	dialTime   = 10 * time.Second // for the name and the connection; further than that nobody answers
	tlsTime    = 10 * time.Second
	headerTime = 30 * time.Second // for the first line of an answer
	headerMax  = 64 << 10
)

// ErrRefused is inside every error about an address that may not be reached.
var ErrRefused = errors.New("address is refused")

// ErrRedirect is inside the error of a request that was answered with a redirect.
var ErrRedirect = errors.New("redirects are not followed")

// Guard says what may be reached. The zero Guard lets public addresses through and nothing else. It is a value without
// state and safe for concurrent use.
type Guard struct {
	// AllowPrivate lets private networks and this machine through too. Link-local addresses, where clouds keep their
	// metadata, and those that stand for no host, never are.
	AllowPrivate bool
}

// Check says why an address may not be reached; nil when it may. The error is an ErrRefused.
func (g Guard) Check(addr netip.Addr) error {
	far, name := judge(addr)
	switch {
	case mutation.On("netguard-lets-all-through"):
		return nil
	case far == public, far == local && g.AllowPrivate:
		return nil
	case far == local:
		return fmt.Errorf("%w: %s is %s", ErrRefused, addr, name)
	}
	return fmt.Errorf("%w: %s is %s and never reached", ErrRefused, addr, name)
}

// DialContext connects to a public address of a host. A name is looked up first; each of its addresses is judged when its
// socket is made, and those that are refused are passed over.
func (g Guard) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTime, KeepAlive: -1, Control: g.control}
	return dialer.DialContext(ctx, network, addr)
}

// control sees the very address that the kernel is about to be given.
func (g Guard) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s is no TCP", ErrRefused, network)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrRefused, err)
	}
	return g.Check(to.Addr())
}

// Transport makes one that dials through the guard, with bounded waits. Its connections are not kept: what is asked rarely
// holds no descriptor. The caller bounds the whole of a request by its context, and the body by what it reads.
func (g Guard) Transport() *http.Transport {
	return &http.Transport{
		DialContext: g.DialContext, TLSHandshakeTimeout: tlsTime, ResponseHeaderTimeout: headerTime, MaxResponseHeaderBytes: headerMax,
		DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true,
	}
}

// Client makes one that uses Transport and follows no redirect: the answer that asks for it is an error with ErrRedirect.
func (g Guard) Client(timeout time.Duration) *http.Client {
	return &http.Client{
		Transport: g.Transport(), Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return ErrRedirect },
	}
}
