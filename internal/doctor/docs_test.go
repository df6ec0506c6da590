package doctor

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// Whoever reads a line of the doctor finds its name in the page, and the page tells of no check that there is not.
func TestEveryCheckHasItsRowInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|[^|]*\\S[^|]*\\|[^|]*\\S[^|]*\\|[^|]*\\S[^|]*\\|$").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, m[1])
	}
	for _, name := range Names() {
		if !slices.Contains(rows, name) {
			t.Errorf("the check %q has no whole row in docs/doctor.md", name)
		}
	}
	for _, name := range rows {
		if !slices.Contains(Names(), name) {
			t.Errorf("docs/doctor.md tells of the check %q, which nobody makes", name)
		}
	}
}
