package kanban

import (
	"os"
	"path/filepath"
	"testing"

	"gatewayd/internal/problem"
)

func TestTheFileOfABoardNamesIt(t *testing.T) {
	real, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere.db")
	for _, err := range []error{
		os.Symlink(real, link), os.WriteFile(elsewhere, nil, 0o600),
		os.MkdirAll(filepath.Join(real, boardDir("plain")), 0o700), os.MkdirAll(filepath.Join(real, boardDir("linked")), 0o700),
		os.WriteFile(filepath.Join(real, dbFile("plain")), nil, 0o600), os.Symlink(elsewhere, filepath.Join(real, dbFile("linked"))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{real, link} {
		root, err := OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]Slug{
			filepath.Join(real, "kanban.db"):                 DefaultSlug, // not made yet
			filepath.Join(real, dbFile("plain")):             "plain",
			elsewhere:                                        "linked",
			filepath.Join(real, boardDir("gone")):            "",
			filepath.Join(t.TempDir(), "plain", "kanban.db"): "",
		} {
			slug, err := root.SlugOf(path)
			if slug != want || (want == "") != problem.Is(err, problem.NotFound) {
				t.Errorf("below %s, %s is board %q (%v), want %q", dir, path, slug, err, want)
			}
		}
		_ = root.Close()
	}
}
