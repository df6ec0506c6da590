package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestTrailerIsFoundOnlyAsALineOfItsOwn(t *testing.T) {
	for tail, want := range map[string]int{
		"x\n[kanban-worker-exit] rc=75\n":                             75,
		"[kanban-worker-exit] rc=1\nretry\n[kanban-worker-exit] rc=0": 0,
		"said [kanban-worker-exit] rc=0":                              -1,
		"":                                                            -1,
	} {
		code, ok := TrailerCode(tail)
		if ok != (want >= 0) || ok && code != want {
			t.Errorf("%q: %d %v", tail, code, ok)
		}
	}
}

func TestTheLastWordOfOurAgentStandsForItsOutput(t *testing.T) {
	tail := "{\"level\":\"INFO\"}\n" + LastWord("one") + "more\n" + LastWord("two\nlines, and  what to do")
	if got := LastOutput(tail + "[kanban-worker-exit] rc=1\n"); got != "two lines, and what to do" || Why("said [the card is not ended] x") != "" {
		t.Errorf("%q", got)
	}
}

func TestLastOutputIsShortAndWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(strings.Repeat("ü", 5000)+"\nlast line\n[kanban-worker-exit] rc=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tail := LogTail(path, time.Time{})
	got := LastOutput(tail)
	if len(got) > 400 || !utf8.ValidString(got) || !strings.HasSuffix(got, "last line") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if s := Summary(tail); s != "last line" {
		t.Errorf("summary %q", s)
	}
	if LogTail(filepath.Join(t.TempDir(), "none"), time.Time{}) != "" {
		t.Error("a missing log is not empty")
	}
	if got := LogTail(path, time.Now().Add(time.Hour)); got != "" {
		t.Errorf("a log that was last written before the run has its words: %.40q", got)
	}
}
