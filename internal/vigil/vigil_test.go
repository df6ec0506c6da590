package vigil

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestItAsksUntilTheAnswerIsYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		if !Until(time.Minute, nil, func() bool { asked++; return time.Since(began) >= time.Second }) {
			t.Error("the answer was yes")
		}
		if took := time.Since(began); took > time.Second+most || asked < 10 || asked > 70 {
			t.Errorf("asked %d times in %v", asked, took)
		}
	})
}

func TestItGivesUpInTimeAndAsksOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if Until(time.Second, nil, func() bool { return false }) || time.Since(began) != time.Second {
			t.Errorf("gave up after %v", time.Since(began))
		}
		over := make(chan struct{})
		close(over)
		asked := 0
		if !Until(time.Minute, over, func() bool { asked++; return asked == 2 }) {
			t.Error("what came with the end was not seen")
		}
	})
}
