package sessiondb

import (
	"log/slog"
	"sync"
	"time"
)

// maxStamp is 2100-01-01 in microseconds. What lies outside 0 < t <= maxStamp was not written by a clock.
const maxStamp = 4102444800 * int64(time.Second/time.Microsecond)

// sane reports whether a stored number can be a time.
func sane(us int64) bool { return us > 0 && us <= maxStamp }

// stamp is t as the file holds it; ok is false when t is not a time that a clock could have shown.
func stamp(t time.Time) (us int64, ok bool) {
	us = t.UnixMicro()
	return us, sane(us)
}

// stampOr is t, or fallback where t is missing or absurd.
func stampOr(t time.Time, fallback int64) int64 {
	if us, ok := stamp(t); ok && !t.IsZero() {
		return us
	}
	return fallback
}

// moment is the time of a stored number, the zero time when that is no time.
func moment(us int64) time.Time {
	if !sane(us) {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// onceLog says each trouble about each thing one time: a bad row in a list that is read every second is one line.
type onceLog struct {
	log  *slog.Logger
	seen sync.Map
}

func (o *onceLog) warn(msg, thing string, args ...any) {
	if _, said := o.seen.LoadOrStore(msg+"\x00"+thing, struct{}{}); !said {
		o.log.Warn(msg, args...)
	}
}
