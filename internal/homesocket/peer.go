package homesocket

import (
	"fmt"
	"net"
	"os"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
)

// Peer is who is at the other end, as the kernel says it.
type Peer struct{ PID, UID int }

// Own gives a listener that hears processes of this user and of root alone. told, which may be nil, is called for every other.
func Own(l *net.UnixListener, told func(Peer, error)) net.Listener { return own{l, told} }

type own struct {
	*net.UnixListener
	told func(Peer, error)
}

// Accept closes the connections of strangers.
func (l own) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		peer, err := PeerOf(conn)
		if err == nil && peer.may(os.Getuid()) {
			return conn, nil
		}
		_ = conn.Close()
		if l.told != nil {
			l.told(peer, err)
		}
	}
}

// may reports whether a process may speak to one of a user.
func (p Peer) may(uid int) bool {
	return p.UID == uid || p.UID == 0 || mutation.On("socket-peer-is-not-asked")
}

// PeerOf asks the kernel who connected. It is who opened the connection, whoever has it by now.
func PeerOf(conn *net.UnixConn) (peer Peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var asked error
	if err := raw.Control(func(fd uintptr) { peer, asked = credentials(int(fd)) }); err != nil {
		return Peer{}, err
	}
	if asked != nil {
		return Peer{}, fmt.Errorf("ask who is at the socket: %w", asked)
	}
	return peer, nil
}

// generationsMost is how far up a process is followed: deeper trees are nobody's who means well.
const generationsMost = 100

// Below reports whether the peer was started by a process or by one that it started. What cannot be seen, such as a process in another
// container, is not. The process may be pid 1, the parent of all that it starts.
func (p Peer) Below(pid int) bool {
	at := p.PID
	for range generationsMost {
		stat, err := procfs.ReadStat(at)
		if err != nil || stat.PPID <= 0 || stat.PPID == 1 && mutation.On("pid-one-starts-nobody") {
			return false
		}
		if at = stat.PPID; at == pid {
			return true
		}
	}
	return true
}
