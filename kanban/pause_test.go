package kanban

import (
	"errors"
	"testing"
)

func TestAPauseStaysInTheFileUntilSomebodyResumes(t *testing.T) {
	b := newBoard(t)
	if err := b.Pause(t.Context(), Pause{Mode: "nap"}); err == nil {
		t.Error("a mode that is none is taken")
	}
	if err := b.Pause(t.Context(), Pause{Mode: PauseStarts, Reason: " freeze \xff", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	again := openBoard(t, Options{Path: b.Path()})
	p, err := again.Paused(t.Context())
	if err != nil || p == nil || p.Mode != PauseStarts || p.Reason != "freeze \uFFFD" || p.By != "ann" || p.Since == 0 {
		t.Fatalf("%+v %v", p, err)
	}
	survey, err := again.Survey(t.Context())
	if err != nil || survey.Pause == nil || *survey.Pause != *p {
		t.Errorf("the survey has %+v, %v", survey.Pause, err)
	}
	stats, err := again.Stats(t.Context())
	if err != nil || stats.Pause == nil || *stats.Pause != *p {
		t.Errorf("the stats have %+v, %v", stats.Pause, err)
	}
	if err := b.Pause(t.Context(), Pause{Mode: PauseDrain, By: "bob", Since: 7}); err != nil {
		t.Fatal(err)
	}
	if p, err = again.Paused(t.Context()); err != nil || *p != (Pause{Mode: PauseDrain, By: "bob", Since: 7}) {
		t.Errorf("%+v %v", p, err)
	}
	if err := again.Resume(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	if p, err = b.Paused(t.Context()); err != nil || p != nil {
		t.Errorf("%+v %v", p, err)
	}
	if err := b.Resume(t.Context(), "ann"); !errors.Is(err, ErrConflict) {
		t.Errorf("resumed twice: %v", err)
	}
}
