package homesocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"gatewayd/internal/procfs"
)

// nameMost is how long the name of a socket may be on Linux, with the zero at its end.
const nameMost = 107

// Listen makes the socket of this name in a home that the caller holds. One that lies there was left by a daemon that ended, because a home has one
// holder; anything else in its place is not touched. Whoever closes the listener removes the name by Remove.
func Listen(ctx context.Context, home, name string) (*net.UnixListener, error) {
	if err := Remove(home, name); err != nil {
		return nil, err
	}
	path, closing, err := shortPath(home, name)
	if err != nil {
		return nil, err
	}
	defer closing()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	unix := listener.(*net.UnixListener)
	unix.SetUnlinkOnClose(false) // by then the name may lead elsewhere
	if err := os.Chmod(filepath.Join(home, name), 0o600); err != nil {
		_ = unix.Close()
		return nil, err
	}
	return unix, nil
}

// Remove removes the socket of a home that the caller holds.
func Remove(home, name string) error {
	path := filepath.Join(home, name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is no socket and is in its place; move it away", path)
	}
	if err == nil {
		err = os.Remove(path)
	}
	return err
}

// Dial connects to the daemon of a home. It waits as long as ctx allows.
func Dial(ctx context.Context, home, name string) (net.Conn, error) {
	path, closing, err := shortPath(home, name)
	if err != nil {
		return nil, err
	}
	defer closing()
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// shortPath names the socket in few enough bytes: where the home's own name is too long, by way of a descriptor of the directory, which is open
// until closing is called.
func shortPath(home, name string) (path string, closing func(), err error) {
	path = filepath.Join(home, name)
	if len(path) <= nameMost {
		return path, func() {}, nil
	}
	dir, err := os.Open(home)
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(procfs.FDPath(dir.Fd()), name)
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		_ = dir.Close()
		return "", nil, fmt.Errorf("a socket's name has %d bytes at most, %s has %d, and the way around by /proc is closed: %w", nameMost, filepath.Join(home, name), len(filepath.Join(home, name)), err)
	}
	return path, func() { _ = dir.Close() }, nil
}
