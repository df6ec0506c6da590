package kanban

import (
	"cmp"

	"gatewayd/internal/procfs"
)

// LockState is who holds a lock file now. Nothing is locked to find out.
type LockState struct {
	Path    string `json:"path"`
	Held    bool   `json:"held"`
	PID     int    `json:"pid,omitempty"` // of the holder; while nobody holds it, of who signed last
	Host    string `json:"host,omitempty"`
	Since   int64  `json:"since,omitempty"` // epoch seconds; 0 = unknown
	Command string `json:"command,omitempty"`
}

// StateOfLock looks at one. A holder that has not signed, such as a Hermes process, is known by its pid alone; one in another
// container cannot be seen, and then what it signed is told as the last word.
func StateOfLock(path string) LockState {
	s := LockState{Path: path}
	signed, _ := LockHolder(path)
	if pid, err := procfs.FlockHolder(path); err == nil && pid != 0 {
		s.Held, s.PID, s.Host = true, pid, hostname()
		s.Command, _ = procfs.Command(pid)
		if signed.PID == pid {
			s.Host, s.Since = cmp.Or(signed.Host, s.Host), signed.Since
		}
		return s
	}
	s.PID, s.Host, s.Since = signed.PID, signed.Host, signed.Since
	return s
}
