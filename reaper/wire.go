package reaper

import (
	"syscall"
	"time"

	"gatewayd/internal/procfs"
)

// The control socket carries one JSON value after the other. First the daemon sends the command, and the keeper
// answers whether the child runs; later the daemon may ask for the end, and the last thing a keeper says is its
// record, for the case that no record could be written to the disk.

// order is what the daemon says.
type order struct {
	Command *command `json:"command,omitempty"`
	Stop    *stop    `json:"stop,omitempty"`
}

type stop struct {
	Grace time.Duration `json:"grace"`
}

// answer is what the keeper says.
type answer struct {
	Started *started `json:"started,omitempty"`
	Failed  *failed  `json:"failed,omitempty"`
	Ended   *Record  `json:"ended,omitempty"`
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
