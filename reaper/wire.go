package reaper

import (
	"syscall"
	"time"

	"gatewayd/internal/procfs"
)

// The control socket carries one JSON value after the other. First the daemon sends the command, the keeper says that the
// run is on record, the daemon says go, and the keeper answers whether the child runs. A daemon that dies leaves either a run
// that the next one finds, or a keeper that starts nothing: a command alone may lie in the socket until long after the next
// daemon has looked for records. Later the daemon may ask for the end, and the last thing a keeper says is its
// record, for the case that no record could be written to the disk.

// order is what the daemon says.
type order struct {
	Command *command `json:"command,omitempty"`
	Go      bool     `json:"go,omitempty"`
	Stop    *stop    `json:"stop,omitempty"`
}

type stop struct {
	Grace time.Duration `json:"grace"`
}

// answer is what the keeper says.
type answer struct {
	OnRecord bool     `json:"on_record,omitempty"`
	Started  *started `json:"started,omitempty"`
	Failed   *failed  `json:"failed,omitempty"`
	Ended    *Record  `json:"ended,omitempty"`
}

type started struct {
	Keeper procfs.Identity `json:"keeper"`
	Child  procfs.Identity `json:"child"`
	At     time.Time       `json:"at"`
}

// failed says which step went wrong; the daemon makes the text for people of it.
type failed struct {
	Step  string        `json:"step"` // "exec", "chdir", "log" or "keeper"
	Errno syscall.Errno `json:"errno"`
	Text  string        `json:"text"`
}
