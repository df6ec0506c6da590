package tool

import (
	"errors"
	"log/slog"
	"time"
)

// Bounds of kept results. A conversation that needs one again after a week asks anew.
const (
	DefaultSpillAge   = 7 * 24 * time.Hour
	DefaultSpillBytes = 256 << 20
)

// Spill keeps results that are too large for a row, each in a file for its owner alone, below a directory of its session. It is
// safe for concurrent use, and by several processes of one home.
type Spill struct {
	Dir      string        // <home>/spill; made when it is needed
	MaxAge   time.Duration // 0 means DefaultSpillAge
	MaxBytes int64         // of all sessions together, the oldest go first; 0 means DefaultSpillBytes
	Log      *slog.Logger  // nil: slog.Default
}

func (s *Spill) keep(Call, string) (string, error) { return "", errors.New("not built yet") }
