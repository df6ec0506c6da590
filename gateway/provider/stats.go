package provider

import (
	"fmt"
	"sync"
	"time"
)

// recentMost is how many failures are kept for diagnostics.
const recentMost = 20

// Stats is what happened between us and one server since the start, for diagnostics: a person, or a test that failed, tells from it
// a breaker from a slow answer.
type Stats struct {
	Provider    string          `json:"provider"`
	Model       string          `json:"model"`
	Calls       int64           `json:"calls"`                  // requests that went out
	Answered    int64           `json:"answered"`               // complete answers
	Mended      int64           `json:"mended"`                 // requests repeated in a form that the server takes
	Silent      int64           `json:"silent"`                 // calls ended by our clock
	Failed      map[Class]int64 `json:"failed,omitempty"`       // by what went wrong; a call may fail several times
	Breaker     string          `json:"breaker"`                // closed; or since when and until when it is open
	Open        bool            `json:"breaker_open"`           // no call goes out
	Refuses     []string        `json:"refuses,omitempty"`      // what the server does not take
	PrefillRate float64         `json:"prefill_rate,omitempty"` // tokens of prompt a second, as measured; 0 unknown
	FirstToken  time.Duration   `json:"first_token_ns"`         // of the last answer
	Benched     time.Time       `json:"benched,omitzero"`       // a chain does not ask it before; zero: it may
	Recent      []string        `json:"recent,omitempty"`       // the last failures, oldest first
	Gate        GateStats       `json:"gate,omitzero"`
}

// ledger counts for one client. Safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	calls    int64
	answered int64
	mended   int64
	silent   int64
	failed   map[Class]int64
	first    time.Duration
	recent   []string
}

func (l *ledger) called() { l.mu.Lock(); l.calls++; l.mu.Unlock() }

func (l *ledger) repaired() { l.mu.Lock(); l.mended++; l.mu.Unlock() }

func (l *ledger) done(first time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered++
	l.first = first
}

// note keeps a failure in words.
func (l *ledger) note(err *Error, attempt int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = map[Class]int64{}
	}
	l.failed[err.Class]++
	if err.Class == Timeout && err.Status == 0 {
		l.silent++
	}
	line := fmt.Sprintf("%s attempt %d: %s", time.Now().Format("15:04:05.000"), attempt, err.Class)
	if err.Status != 0 {
		line += fmt.Sprintf(" %d", err.Status)
	}
	l.recent = append(l.recent, line+": "+err.Message)
	if n := len(l.recent) - recentMost; n > 0 {
		l.recent = append([]string(nil), l.recent[n:]...)
	}
}

func (l *ledger) fill(s *Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Calls, s.Answered, s.Mended, s.Silent, s.FirstToken = l.calls, l.answered, l.mended, l.silent, l.first
	s.Failed = map[Class]int64{}
	for class, n := range l.failed {
		s.Failed[class] = n
	}
	s.Recent = append([]string(nil), l.recent...)
}
