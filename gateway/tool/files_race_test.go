package tool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func (d *desktop) swap(name, target string) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := errors.Join(os.Rename(path, path+".was"), os.Symlink(target, path)); err != nil {
		d.t.Fatal(err)
	}
}

// A link that is made between the look and the deed leads to no place that was not looked at, inside of the root either.
func TestALinkMadeMeanwhileIsNotFollowed(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	files := NewFiles(FilesOptions{Dir: d.dir})
	d.put(".env", "SECRET=1")
	d.put(".git/hooks/pre-push.sample", "x")
	for _, name := range []string{"notes.txt", "sub/x"} {
		d.put(name, "harmless")
		p, err := files.toRead(d.call, name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "notes.txt" {
			d.swap(name, ".env")
		} else {
			d.put("other/x", "not looked at")
			d.swap("sub", "other")
		}
		if _, _, err := p.open(); err == nil || !strings.Contains(err.Error(), "made a link") {
			t.Errorf("%s: %v", name, err)
		}
		p.close()
	}
	d.put("src/x", "old")
	_, err := files.change(t.Context(), d.call, "src/pre-push", func(*existing) (string, string, error) {
		d.swap("src", ".git/hooks")
		return "rm -r build", "said", nil
	})
	if _, there := os.Stat(filepath.Join(d.dir, ".git/hooks/pre-push")); err == nil || !errors.Is(there, fs.ErrNotExist) {
		t.Errorf("written through the link: %v, %v", err, there)
	}
}

func TestAChangeInTheLastMomentIsNotLost(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	files := NewFiles(FilesOptions{Dir: d.dir})
	d.put("x", "old")
	for _, name := range []string{"x", "new"} {
		_, err := files.change(t.Context(), d.call, name, func(*existing) (string, string, error) {
			d.put(name, "theirs")
			return "ours", "said", nil
		})
		if got := d.text(name); err == nil || got != "theirs" || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(d.dir, ".*.new")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
