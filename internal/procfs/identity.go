package procfs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// Identity is a process for good: the kernel hands a pid out again, but not with the same start within one boot.
type Identity struct {
	Boot  string `json:"boot"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Self identifies the calling process. Who that is does not change while it lives, so /proc is read until it has answered once: a turn
// asks for it before its first row.
func Self() (Identity, error) {
	if id := self.Load(); id != nil {
		return *id, nil
	}
	id, err := Identify(os.Getpid())
	if err == nil {
		self.Store(&id)
	}
	return id, err
}

var self atomic.Pointer[Identity]

// Identify says who has this pid now; a zombie still has its identity.
func Identify(pid int) (Identity, error) {
	stat, err := ReadStat(pid)
	if err != nil {
		return Identity{}, fmt.Errorf("identify process: %w", err)
	}
	boot := BootID()
	if boot == "" {
		return Identity{}, fmt.Errorf("identify process %d: the boot id cannot be read", pid)
	}
	return Identity{Boot: boot, PID: pid, Start: stat.Start}, nil
}

// Alive reports that this very process runs: same boot, same start, and neither a zombie nor dead. What cannot
// be read is not alive, so that nothing is ever signalled on a guess.
func (id Identity) Alive() bool {
	if id.PID <= 0 || id.Boot == "" || id.Boot != BootID() {
		return false
	}
	stat, err := ReadStat(id.PID)
	return err == nil && stat.Start == id.Start && !stat.Dead()
}

// Known reports an identity that was really read.
func (id Identity) Known() bool { return id.PID > 0 && id.Boot != "" }

// BootID names this boot of the kernel; it is empty where it cannot be read.
func BootID() string { return bootID() }

// bootID is read once: it cannot change while the process lives, and Alive asks for it often.
var bootID = sync.OnceValue(func() string {
	data, err := os.ReadFile(root + "sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
})

// Unverified is the fingerprint of a process that could not be read. Who meets it must never signal.
const Unverified = "unverified"

// Fingerprint is the identity in the text form that boards store: "<boot id>:<start of pid 1>|<start>". The
// start of pid 1 tells containers of one machine apart, which share the boot id and count their pids anew.
func Fingerprint(pid int) string {
	first, err := ReadStat(1)
	if err != nil {
		return Unverified
	}
	stat, err := ReadStat(pid)
	if err != nil || BootID() == "" {
		return Unverified
	}
	return fmt.Sprintf("%s:%d|%d", BootID(), first.Start, stat.Start)
}

// LivesAs reports whether the process that a board calls by this pid and fingerprint lives. Old boards hold a bare start
// time or nothing; then as much is compared as there is.
func LivesAs(pid int, fingerprint string) bool {
	stat, err := ReadStat(pid)
	if err != nil || stat.Dead() {
		return false
	}
	switch {
	case fingerprint == "" || fingerprint == Unverified:
		return true
	case strings.Contains(fingerprint, "|"):
		return Fingerprint(pid) == fingerprint
	}
	return fingerprint == fmt.Sprint(stat.Start)
}
