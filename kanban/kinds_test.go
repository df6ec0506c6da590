package kanban

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

func TestEveryKindThatIsWrittenCanBeSubscribedTo(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	known := append(NotifyKinds(), otherKinds...)
	written := regexp.MustCompile(`\.(?:event|note)\([^"\n]*, "([a-z_]+)",|\bEvent[A-Z]\w+ +=? ?"([a-z_]+)"`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range written.FindAllStringSubmatch(string(text), -1) {
			found++
			if kind := m[1] + m[2]; !slices.Contains(known, kind) {
				t.Errorf("%s writes %s, to which nobody can subscribe", file, kind)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d places that write an event were found", found)
	}
}
