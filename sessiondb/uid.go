package sessiondb

import (
	"crypto/rand"
	"strconv"
	"time"
)

// newUID names a row before its transaction, so that a commit of unknown fate can be looked up. It begins with the
// time: the rows of one moment stand side by side in the index, so a batch dirties one page of it and not a page per row.
func newUID(now time.Time) string {
	const width = 11 // 36^11 microseconds reach the year 6000
	digits := strconv.FormatInt(max(now.UnixMicro(), 0), 36)
	for len(digits) < width {
		digits = "0" + digits
	}
	return digits + "-" + rand.Text()[:16]
}

// NewUID names a message before it is stored.
func NewUID() string { return newUID(time.Now()) }
