package sessiondb

import (
	"fmt"

	"gatewayd/internal/procfs"
)

// Holder says which process, in which life of the machine, took a lease. Label is free text for people (the turn).
type Holder struct {
	procfs.Identity
	PIDNS string `json:"pidns,omitempty"`
	Label string `json:"label,omitempty"`
}

// SelfHolder is this process.
func SelfHolder(label string) (Holder, error) {
	id, err := procfs.Self()
	if err != nil {
		return Holder{}, fmt.Errorf("identify this process: %w", err)
	}
	return Holder{Identity: id, PIDNS: procfs.PIDNamespace(), Label: label}, nil
}

// Dead reports that the holder is proved to be gone: the machine was started anew since (a home is one machine), or
// this is the holder's pid namespace and no process there is the one it was. A holder in another namespace cannot be
// judged, so only its expiry counts.
func (h Holder) Dead() bool {
	boot := procfs.BootID()
	if boot == "" || h.Boot == "" {
		return false
	}
	if h.Boot != boot {
		return true
	}
	if h.PIDNS == "" || h.PIDNS != procfs.PIDNamespace() {
		return false
	}
	stat, err := procfs.ReadStat(h.PID)
	if err != nil {
		return procfs.Gone(err) // what merely cannot be read (no descriptors left) is no proof
	}
	return stat.Start != h.Start || stat.Dead()
}

func (h Holder) String() string {
	if h.Label == "" {
		return fmt.Sprintf("pid %d", h.PID)
	}
	return fmt.Sprintf("pid %d (%s)", h.PID, h.Label)
}
