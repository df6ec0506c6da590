package sqlite

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTriesAreCloseAtFirstThenFarApartAndNeverPastTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackoff()
		deadline := time.Now().Add(time.Minute)
		for range 50 {
			if d := b.next(deadline); d < 20*time.Millisecond || d > 150*time.Millisecond {
				t.Errorf("eager pause of %s", d)
			}
		}
		if d := b.next(time.Now().Add(5 * time.Millisecond)); d != 5*time.Millisecond {
			t.Errorf("pause of %s with 5 ms left", d)
		}
		if d := b.next(time.Now()); d != 0 {
			t.Errorf("pause of %s with nothing left", d)
		}
		<-time.After(backoffEager + time.Millisecond)
		for range 50 {
			if d := b.next(deadline); d < 250*time.Millisecond || d > time.Second {
				t.Errorf("patient pause of %s", d)
			}
		}
		if b.pause(t.Context(), time.Now()) {
			t.Error("a pause without time left promises another try")
		}
	})
}
