package procfs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Listener is a TCP socket that waits for connections.
type Listener struct {
	Addr netip.AddrPort
	PID  int // who has it; 0 where that may not be looked at
	node string
}

const listening = "0A" // the state of a socket in the kernel's table

// Listeners gives those of this network namespace on a port, with their processes. It looks at all processes, one to twenty milliseconds.
func Listeners(port int) ([]Listener, error) {
	var found []Listener
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, err := os.ReadFile(root + "self/" + table)
		if errors.Is(err, fs.ErrNotExist) {
			continue // without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("read sockets: %w", err)
		}
		found = append(found, listenersIn(string(text), port)...)
	}
	if len(found) == 0 {
		return nil, nil
	}
	open, err := OpenFiles(func(target string) bool { return strings.HasPrefix(target, "socket:") })
	if err != nil {
		return nil, err
	}
	for i := range found {
		for _, fd := range open {
			if fd.Target == "socket:["+found[i].node+"]" {
				found[i].PID = fd.PID
			}
		}
	}
	return found, nil
}

func listenersIn(table string, port int) (found []Listener) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		if addr, ok := kernelAddr(fields[1]); ok && int(addr.Port()) == port {
			found = append(found, Listener{Addr: addr, node: fields[9]})
		}
	}
	return found
}

// kernelAddr reads "0100007F:21C2": words of four bytes in the machine's order, which is little endian on all of ours, then the port.
func kernelAddr(text string) (netip.AddrPort, bool) {
	host, service, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	port, bad := strconv.ParseUint(service, 16, 16)
	if !ok || err != nil || bad != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), ok
}
