package systemd

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier speaks to the service manager that started this process. Its methods are safe for concurrent use and
// do nothing where there is none.
type Notifier struct {
	send    func(state string) error
	manager atomic.Bool
}

// NewNotifier finds the service manager by the socket it named to this process.
func NewNotifier() *Notifier {
	n := &Notifier{}
	n.send = func(state string) error {
		sent, err := daemon.SdNotify(false, state)
		if sent {
			n.manager.Store(true)
		}
		return err
	}
	return n
}

// Ready says that the daemon serves, and which process it is. Units that wait for it start now.
func (n *Notifier) Ready() error {
	return n.tell(fmt.Sprintf("%s\nMAINPID=%d", daemon.SdNotifyReady, os.Getpid()))
}

// Stopping says that the daemon drains.
func (n *Notifier) Stopping() error { return n.tell(daemon.SdNotifyStopping) }

// Reloading says that the configuration is being read again; Ready says that this is over.
func (n *Notifier) Reloading() error {
	return n.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Status is one line of what the daemon does, shown by `systemctl status`.
func (n *Notifier) Status(line string) error {
	return n.tell("STATUS=" + strings.Join(strings.Fields(line), " "))
}

// Extend asks for more time to start or stop, counted from now.
func (n *Notifier) Extend(by time.Duration) error {
	return n.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", by.Microseconds()))
}

// Heard reports that something was told to somebody already.
func (n *Notifier) Heard() bool { return n.manager.Load() }

func (n *Notifier) feed() error { return n.tell(daemon.SdNotifyWatchdog) }

func (n *Notifier) tell(state string) error {
	if err := n.send(state); err != nil {
		what, _, _ := strings.Cut(state, "=")
		return fmt.Errorf("notify systemd of %s: %w", what, err)
	}
	return nil
}
