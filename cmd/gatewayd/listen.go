package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"gatewayd/gateway/api"
	"gatewayd/gateway/keys"
	"gatewayd/internal/homesocket"
	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/systemd"
)

// apiSocket is the command line's door: who is this user needs no key.
const apiSocket = "api.sock"

// bind takes the address before anything runs, so that a port in use is a start that failed and not a daemon
// that half works. A socket that systemd hands over is used instead, and held against the same rules.
func (d *daemon) bind(ctx context.Context) (err error) {
	handed, err := systemd.Handed()
	if err != nil {
		return &problem.Error{Kind: problem.Config, Thing: "the socket unit of this service", What: "cannot be served", Fate: "nothing was started", Remedy: "`gatewayd install --socket --dry-run` prints one that can", Err: err}
	}
	where := "handed over by systemd"
	if d.listener = handed; handed == nil {
		where = from(d.config.Origins["api.addr"])
		if err := d.listenOn(ctx, d.config.API.Addr); err != nil {
			return err
		}
	}
	if err := d.config.API.CheckBound(d.listener.Addr()); err != nil && (handed == nil || !mutation.On("handed-address-is-not-looked-at")) {
		return err
	}
	d.places = api.Limit(d.listener, d.config.API.MaxConnections, d.log)
	d.listener = d.places
	scheme := "http://"
	if d.config.API.TLS() {
		scheme = "https://"
		certificate, err := api.ReadCertificate(d.config.API.TLSCert, d.config.API.TLSKey, d.log)
		if err != nil {
			return err
		}
		d.hosts = certificate.Names()
		d.listener = api.SpeakTLS(d.listener, certificate.Config())
	}
	d.decide("API", scheme+d.listener.Addr().String(), where)
	d.bindSocket(ctx)
	return d.home.Announce(d.listener.Addr().String())
}

// listenOn takes an address of the configuration.
func (d *daemon) listenOn(ctx context.Context, addr string) (err error) {
	d.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return &problem.Error{
			Kind: problem.Unavailable, Thing: "address " + addr, What: "is in use by another program", Fate: "nothing was started",
			Remedy: "stop that program, or choose another with --addr HOST:PORT or api.addr", Err: err,
		}
	}
	if err != nil {
		return &problem.Error{Kind: problem.Config, Thing: "address " + addr, What: "cannot be listened on", Fate: "nothing was started", Remedy: "choose another with --addr HOST:PORT or api.addr", Err: err}
	}
	return nil
}

// bindSocket makes the home's own door. That it cannot be made is no failure: the command line then uses the address and api.key.
func (d *daemon) bindSocket(ctx context.Context) {
	path := filepath.Join(d.config.Home, apiSocket)
	socket, err := homesocket.Listen(ctx, d.config.Home, apiSocket)
	if err != nil {
		d.config.Warnings = append(d.config.Warnings, "no socket for the command line, which uses api.key instead: "+err.Error())
		d.decide("API socket", "off", err.Error())
		return
	}
	d.socket = homesocket.Own(socket, func(p homesocket.Peer, err error) {
		d.log.Warn("a process of another user was refused at the socket", "path", path, "pid", p.PID, "uid", p.UID, "error", err)
	})
	d.decide("API socket", path, "for this user, without a key")
}

// comesIn marks the connections of the home's socket. A command that this daemon itself started, for a model above all, shows a key as everybody
// else does: it is not the person who runs the daemon.
func (d *daemon) comesIn(ctx context.Context, conn net.Conn) context.Context {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	peer, err := homesocket.PeerOf(unix)
	if err != nil || peer.Below(d.pid) {
		return ctx
	}
	return keys.With(ctx, keys.Socket())
}

// mcpURL is where workers of this machine find the boards' tools: plain HTTP, which is spoken here with this machine whatever others are spoken to in.
func (d *daemon) mcpURL() string {
	addr := d.listener.Addr().String()
	if tcp, ok := d.listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return "http://" + addr + "/mcp"
}

// listen serves until it is told to stop. Requests that are under way get their last words: the turns that they
// wait for end when the conversations have drained.
func (d *daemon) listen(ctx context.Context) error {
	served := make(chan error, 2)
	doors := d.serveDoors(served)
	select {
	case err := <-served:
		return &problem.Error{Kind: problem.Unavailable, Thing: "API on " + d.listener.Addr().String(), What: "stopped listening", Err: err}
	case <-ctx.Done():
		close(d.apiStops)
	}
	<-d.talked // until then whoever asks is told that it drains, and what is new is refused with a reason
	bound, cancel := context.WithTimeout(context.Background(), d.config.Agent.ShutdownGrace+5*time.Second)
	defer cancel()
	if err := d.server.Shutdown(bound); err != nil {
		d.log.Warn("requests were cut off", "error", err)
		_ = d.server.Close()
	}
	for range doors {
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
	}
	return nil
}

// serveDoors serves the address and the socket, and gives how many that are. The socket's name goes with its listener: the home is still held.
func (d *daemon) serveDoors(served chan<- error) (doors int) {
	go func() { served <- d.server.Serve(d.listener) }()
	if d.socket == nil {
		return 1
	}
	go func() {
		err := d.server.Serve(d.socket)
		_ = homesocket.Remove(d.config.Home, apiSocket)
		served <- err
	}()
	return 2
}
