package e2e

import (
	"strings"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// firstByteFigure measures from the moment in which the provider writes the first piece of an answer until the client of the HTTP API has it.
func firstByteFigure(t *testing.T) []figure {
	gate := make(chan struct{})
	s := newScene(t, forever(), func(fakellm.Request) fakellm.Response { return fakellm.Text{Text: "now", Gate: gate} })
	var took []float64
	for i := range 60 {
		came := make(chan time.Time, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.hear(t.Context(), "first-byte", "say something", func(p part) {
				if p.kind == "text" && strings.Contains(p.text, "now") {
					came <- time.Now()
				}
			})
		}()
		if _, err := s.model.Wait(t.Context(), i+1); err != nil {
			t.Fatal(err)
		}
		sent := time.Now()
		gate <- struct{}{}
		took = append(took, float64((<-came).Sub(sent).Microseconds())/1e3)
		<-done
	}
	s.stop()
	return []figure{
		below("first byte at the client after the provider's, median", median(took), "ms", 2),
		below("first byte at the client after the provider's, 95th percentile", quantile(took, 0.95), "ms", 5),
	}
}
