//go:build !mutate

package dispatch

import "time"

// patience is how long a test waits for what must come: for ever, but for a machine that hangs.
const patience = time.Minute
