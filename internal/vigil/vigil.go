// Package vigil is how tests wait for what gives them no sign: another process's file or database, the kernel's
// view of a process, a page in a browser. It is the one place that asks again and again. Whatever can be waited on as
// an event (a channel, the end of a child, a line of a log, a stream) is waited on and not asked for; the house's rules
// see to both.
package vigil

import "time"

// Between two questions: often enough for what happens at once, and seldom enough that a machine with two cores and
// twenty waiting tests does its work instead.
const (
	first = time.Millisecond
	most  = 25 * time.Millisecond
)

// Until asks until the answer is yes, for at most limit, or until over is closed; nil never is. After either it asks
// once more. It reports whether the answer was yes.
func Until(limit time.Duration, over <-chan struct{}, yes func() bool) bool {
	late := time.NewTimer(limit)
	defer late.Stop()
	pause := time.NewTimer(first)
	defer pause.Stop()
	for next := first; !yes(); pause.Reset(next) {
		select {
		case <-pause.C:
			next = min(next+next/2+1, most)
		case <-over:
			return yes()
		case <-late.C:
			return yes()
		}
	}
	return true
}

// LetPass lets time pass where time itself is what a test is about: a machine that idles while it is measured, a
// deadline that is over, a moment that a seed has chosen. why says which, to whoever reads the call.
func LetPass(d time.Duration, why string) {
	if why == "" {
		panic("vigil: time passes for no reason")
	}
	time.Sleep(d)
}
