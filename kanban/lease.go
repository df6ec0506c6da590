package kanban

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
)

// Lease says which process delivers for a subscription, and until when others leave it alone. It is a row's own lock:
// several daemons with several homes may serve one root, and each knows other targets.
type Lease struct {
	Holder string // "<hostname>:<pid> <fingerprint>"
	Until  int64
}

// NewLease is this process's, for so long from now.
func NewLease(d time.Duration) Lease {
	return Lease{
		Holder: ClaimLock() + " " + procfs.Fingerprint(os.Getpid()),
		Until:  time.Now().Add(d).Unix(),
	}
}

// free reports whether somebody else may take the lease: it is theirs, has run out, or its holder is dead. A holder is
// known to be dead only where its pid means something, on this machine and in this container.
func (l Lease) free(who string, now int64) bool {
	return mutation.On("lease-is-not-looked-at") || l.Holder == "" || l.Holder == who || l.Until <= now || l.Until > now+maxWait || l.dead()
}

// Free reports whether this process may take it now.
func (l Lease) Free(now time.Time) bool { return l.free(NewLease(0).Holder, now.Unix()) }

func (l Lease) dead() bool {
	lock, print, ok := strings.Cut(l.Holder, " ")
	host, _, known := strings.Cut(print, "|")
	here, _, _ := strings.Cut(procfs.Fingerprint(1), "|")
	if !ok || !known || host != here || !HostLocal(lock) {
		return false
	}
	pid, err := strconv.Atoi(lock[strings.LastIndexByte(lock, ':')+1:])
	if err != nil {
		return false
	}
	st, err := procfs.ReadStat(pid)
	return err == nil && (st.Dead() || procfs.Fingerprint(pid) != print) || errors.Is(err, fs.ErrNotExist)
}
