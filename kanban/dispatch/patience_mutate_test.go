//go:build mutate

package dispatch

import "time"

// patience is short where a guard is left out: what must come does not, and the test has only to notice.
const patience = 15 * time.Second
