package gateway

import (
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

func TestASlowReaderOfEventsLosesNothingAndHoldsNobody(t *testing.T) {
	var got strings.Builder
	release, reading := make(chan struct{}), make(chan struct{}, 1)
	s := newSink(func(e Event) {
		select {
		case reading <- struct{}{}:
		default:
		}
		<-release
		got.WriteString(e.Text)
	})
	var want strings.Builder
	for range 100_000 {
		s.put(Event{Kind: EventDelta, Text: "abc "})
		want.WriteString("abc ")
	}
	<-reading
	close(release)
	if dropped := s.close(); dropped || got.String() != want.String() {
		t.Errorf("dropped %v, %d of %d bytes", dropped, got.Len(), want.Len())
	}
}

func TestAReaderThatStandsStillIsDroppedAndTheTurnGoesOn(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: strings.Repeat("x", 3*sinkBytes/2), ChunkChars: 1 << 16})
	stuck, ended := make(chan struct{}), make(chan struct{})
	results := make(chan Result, 1)
	go func() {
		defer close(ended)
		r, err := h.Say(soon(t), Say{Session: "s1", Source: SourceAPI, Text: "go"}, func(Event) { <-stuck })
		if err != nil {
			t.Error(err)
		}
		results <- r
	}()
	until(t, h, "the turn ends though its reader stands still", func(s Status) bool { return s.Turns == 1 && s.Conversations == 0 })
	if got := shape(h.rows("s1")); got != "user assistant" {
		t.Error(got)
	}
	close(stuck)
	<-ended
	if r := <-results; !r.Completed || !r.SinkDropped || len(r.Text) != 3*sinkBytes/2 {
		t.Errorf("completed %v, dropped %v, %d bytes", r.Completed, r.SinkDropped, len(r.Text))
	}
}

func TestEventsOfDifferentKindsKeepTheirOrder(t *testing.T) {
	var got []string
	s := newSink(func(e Event) { got = append(got, string(e.Kind)+":"+e.Text) })
	for _, e := range []Event{{Kind: EventReasoning, Text: "r"}, {Kind: EventDelta, Text: "d"}, {Kind: EventToolStarted, Text: "t"}, {Kind: EventDelta, Text: "e"}} {
		s.put(e)
	}
	s.close()
	if strings.Join(got, " ") != "reasoning:r delta:d tool_started:t delta:e" {
		t.Error(got)
	}
}
