package systemd

import (
	"fmt"
	"net"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
)

// SocketName is what the socket of the API is called in its unit (FileDescriptorName).
const SocketName = "api"

// Handed gives the listener that the service manager hands over, nil where it hands none. It may be asked once: a second caller, and
// whatever this process starts, finds nothing. More than one and what is no TCP socket are errors: whoever wrote that
// unit means something that would not happen.
func Handed() (net.Listener, error) {
	files := activation.Files(true)
	defer func() {
		for _, f := range files {
			_ = f.Close() // the listener has a descriptor of its own
		}
	}()
	switch len(files) {
	case 0:
		return nil, nil
	case 1:
		return listenerOf(files[0])
	}
	return nil, fmt.Errorf("%d sockets were handed over, and there is one API: leave one ListenStream in the unit", len(files))
}

func listenerOf(file *os.File) (net.Listener, error) {
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("take the socket %s that was handed over: %w", file.Name(), err)
	}
	if _, tcp := l.(*net.TCPListener); !tcp {
		_ = l.Close()
		return nil, fmt.Errorf("the socket %s that was handed over is of the network %s: the API is served on TCP", file.Name(), l.Addr().Network())
	}
	return l, nil
}
