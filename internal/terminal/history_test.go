package terminal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHistoryKeepsLinesAndForgetsWhatItIsToldTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"first", "first", " secret", "two\nrows\\n", strings.Repeat("x", historyBytes+1), ""} {
		if err := h.Add(line); err != nil {
			t.Fatal(err)
		}
	}
	again, err := OpenHistory(path)
	if want := []string{"first", "two\nrows\\n"}; err != nil || !slices.Equal(again.Lines(), want) {
		t.Errorf("%q, %v", again.Lines(), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	var b strings.Builder
	for i := range 2*HistoryLines + 5 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(path)
	if err != nil || len(h.Lines()) != HistoryLines || h.Lines()[0] != fmt.Sprintf("line %d", HistoryLines+5) {
		t.Errorf("%d lines, %v", len(h.Lines()), err)
	}
	raw, err := os.ReadFile(path)
	if n := strings.Count(string(raw), "\n"); err != nil || n != HistoryLines {
		t.Errorf("%d lines in the file, %v", n, err)
	}
}
