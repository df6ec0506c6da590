package sessiondb

import "testing"

func TestAResultIsAFailureByItsKindAndBeforeThatByItsWords(t *testing.T) {
	for _, c := range []struct {
		kind, begins string
		want         bool
	}{
		{"", "12 files", false},
		{"", "no error: all is well", false},
		{"", "error: there is no such tool", true},
		{"", `{"error":"the card is not there"}`, true},
		{"", "[not run: stopped by the user]", true},
		{"", "[no result was recorded; if", true},
		{"", "[the process that ran this ended before the result was recorded.", true},
		{KindFailed, "boom\n[exit 1]", true},
		{KindInterrupted, "half of", true},
		{KindRepair, "[not run: the process ended first.", true},
		{KindModelOnly, "error: folded", false}, // stands for a row that counted already
	} {
		if got := ResultFailed(c.kind, c.begins); got != c.want {
			t.Errorf("%q %q: %v", c.kind, c.begins, got)
		}
	}
}
