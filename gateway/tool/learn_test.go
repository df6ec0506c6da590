package tool

import (
	"strings"
	"testing"
)

// A key that is new since the start is taken out of the results of conversations that are under way, and the old one still is.
func TestAKeyThatIsLearntIsTakenOutOfWhatRunsAlready(t *testing.T) {
	set := NewSet().Redacting("old-hunter2-key")
	running := set.As(nil)
	set.Learn("new-hunter3-key")
	got := running.bounded(Result{Content: "old-hunter2-key new-hunter3-key"}).Content
	if strings.Contains(got, "hunter2") || strings.Contains(got, "hunter3") {
		t.Errorf("%q", got)
	}
}
