package reaper

import (
	"time"

	"gatewayd/internal/procfs"
)

type sighting struct{ first time.Time }

var _ procfs.Stat

func (r *Reaper) sweep(begun Record, grace time.Duration) (rounds, left int) { return 0, 0 }
