package compact

import (
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// How long a conversation is left alone. The store keeps it, so that neither a restart nor another process begins anew.
var failureWaits = []time.Duration{60 * time.Second, 300 * time.Second, 900 * time.Second}

const (
	softWait    = 30 * time.Second  // the summariser's answer came to nothing; the next may be well
	idleWait    = 60 * time.Second  // there was nothing to fold
	strikesMost = 2                 // compactions in a row that gained too little
	probation   = 300 * time.Second // after which one more is tried
	leastGain   = 10                // percent; less is a strike
)

// May reports whether a compaction may begin by itself. A wait longer than any was set by a clock that has been put right since.
func May(st sessiondb.CompactionState, now time.Time) bool {
	wait := st.RetryAt.Sub(now)
	return wait <= 0 || wait > failureWaits[len(failureWaits)-1]
}

// Stuck reports a conversation that compactions do not make smaller any more.
func Stuck(st sessiondb.CompactionState) bool { return st.Strikes >= strikesMost }

// Repeated reports that not only the last summary failed.
func Repeated(st sessiondb.CompactionState) bool { return st.Failures > 1 }

// Failed is the state after a summary failed. soft is a failure that says nothing about the next try.
func Failed(st sessiondb.CompactionState, now time.Time, soft bool, why string) sessiondb.CompactionState {
	st.Failures++
	st.LastError = why
	wait := failureWaits[min(st.Failures, len(failureWaits))-1]
	if soft {
		wait = softWait
	}
	st.RetryAt = now.Add(wait)
	if mutation.On("compact-forgets-its-cool-down") {
		st.RetryAt = time.Time{}
	}
	return st
}

// Nothing is the state after there was nothing to fold.
func Nothing(st sessiondb.CompactionState, now time.Time) sessiondb.CompactionState {
	st.RetryAt = now.Add(idleWait)
	return st
}

// Gained is the state after a compaction that took a conversation from so many tokens to so many, where trigger is what it had
// to get below. A refused one went from before to before.
func Gained(st sessiondb.CompactionState, now time.Time, before, after, trigger int) sessiondb.CompactionState {
	st.Failures, st.LastError, st.RetryAt = 0, "", time.Time{}
	if (before-after)*100 >= before*leastGain && after < trigger {
		st.Strikes = 0
		return st
	}
	st.Strikes++
	st.LastError = "the conversation did not get smaller"
	if Stuck(st) {
		st.RetryAt = now.Add(probation)
	}
	return st
}

// Cleared is the state after a person asked, or after the server counted fewer tokens than the trigger: strikes and cool-downs
// are gone, what is known of single exchanges stays.
func Cleared(st sessiondb.CompactionState) sessiondb.CompactionState {
	return sessiondb.CompactionState{Exchanges: st.Exchanges}
}

// exchangeTries is how often an exchange is summarised in vain before it is left alone for good.
const exchangeTries = 3

// Skips reports an exchange that is left alone for good.
func Skips(st sessiondb.CompactionState, key string) bool { return st.Exchanges[key] >= exchangeTries }

// Missed counts a failure for an exchange. Exchanges that are not in the transcript any more are forgotten.
func Missed(st sessiondb.CompactionState, key string, rows []sessiondb.Message) sessiondb.CompactionState {
	live := map[string]int{}
	for _, m := range rows {
		if n := st.Exchanges[Key(m)]; n > 0 {
			live[Key(m)] = n
		}
	}
	live[key]++
	st.Exchanges = live
	return st
}
