package homesocket

import "golang.org/x/sys/unix"

func credentials(fd int) (Peer, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	return Peer{PID: int(c.Pid), UID: int(c.Uid)}, nil
}
