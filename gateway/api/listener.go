package api

import (
	"bufio"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Limit lets so many connections of a listener be open at once. Others wait in the kernel until one ends; a log line says when that begins.
func Limit(l net.Listener, most int, log *slog.Logger) *Limited {
	return &Limited{Listener: l, places: make(chan struct{}, most), closed: make(chan struct{}), log: log}
}

// Limited is a listener with so many places. Its methods are safe for concurrent use.
type Limited struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
	log    *slog.Logger
}

// Accept waits for a place before it takes a connection.
func (l *Limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	default:
		l.log.Warn("as many connections are open as may be; others wait", "connections", cap(l.places), "remedy", "raise api.max_connections if they are meant")
		select {
		case l.places <- struct{}{}:
			l.log.Info("connections are taken again")
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// Full reports that every place is taken: who comes now waits.
func (l *Limited) Full() bool { return len(l.places) == cap(l.places) }

// Close ends the waiting too.
func (l *Limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// placed is a connection that gives its place back.
type placed struct {
	net.Conn
	leave func()
}

func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// SpeakTLS gives a listener that speaks TLS with everybody, and plain HTTP with this machine where that begins so: the programs of a home's
// daemon, its workers above all, reach it under its address, and nobody reads along inside a machine who could not read the keys themselves.
func SpeakTLS(l net.Listener, config *tls.Config) net.Listener {
	s := &speaking{Listener: l, config: config, ready: make(chan net.Conn), failed: make(chan error, 1), closed: make(chan struct{})}
	go s.run()
	return s
}

type speaking struct {
	net.Listener
	config *tls.Config
	ready  chan net.Conn
	failed chan error
	closed chan struct{}
	once   sync.Once
}

// helloTime is how long a connection from this machine may take to say its first byte.
const helloTime = 10 * time.Second

// run accepts until the listener is closed. A connection whose first byte has to be waited for waits for itself.
func (s *speaking) run() {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			select {
			case s.failed <- err:
			case <-s.closed:
				return
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if thisMachine(conn) {
			go s.listenFirst(conn)
		} else {
			s.give(tls.Server(conn, s.config))
		}
	}
}

func (s *speaking) listenFirst(conn net.Conn) {
	heard := &peeked{conn, bufio.NewReaderSize(conn, 512)}
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	first, err := heard.reader.Peek(1)
	if err != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	const handshake = 0x16 // the first byte of a TLS connection, and of no HTTP request
	if first[0] == handshake {
		s.give(tls.Server(heard, s.config))
		return
	}
	s.give(heard)
}

func (s *speaking) give(conn net.Conn) {
	select {
	case s.ready <- conn:
	case <-s.closed:
		_ = conn.Close()
	}
}

// Accept gives a connection whose language is known.
func (s *speaking) Accept() (net.Conn, error) {
	select {
	case conn := <-s.ready:
		return conn, nil
	case err := <-s.failed:
		return nil, err
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close ends run and what waits.
func (s *speaking) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Listener.Close()
}

// peeked is a connection of which something was read already.
type peeked struct {
	net.Conn
	reader *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.reader.Read(b) }

// thisMachine reports whether both ends of a connection are here.
func thisMachine(conn net.Conn) bool {
	from, ok := conn.RemoteAddr().(*net.TCPAddr)
	to, isTCP := conn.LocalAddr().(*net.TCPAddr)
	return ok && isTCP && (from.IP.IsLoopback() || from.IP.Equal(to.IP))
}
