package keys

import (
	"testing"
	"time"
)

func TestHowLongAKeyLivesIsReadInDaysAndWeeks(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "12h": 12 * time.Hour, "90d": 90 * 24 * time.Hour, "52w": 52 * 7 * 24 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := ParseExpiry(text); err != nil || got != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"d", "0d", "-1d", "1.5d", "90", "x", "4000d", "999999999999d", "2147483647w", "0s", "90 d"} {
		if got, err := ParseExpiry(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
