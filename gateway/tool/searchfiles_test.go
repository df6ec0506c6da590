package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesAreFoundByNameAndByContent(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	d.put("a.go", "package a\n\nfunc Alpha() {}\n")
	d.put("src/b.go", "package b\r\n// alpha too\r\n")
	d.put("src/deep/c.txt", "ALPHA\n")
	d.put(".git/objects/x.go", "Alpha\n")
	d.put("node_modules/x/y.go", "Alpha\n")
	d.put(".env", "Alpha=secret\n")
	d.put("bin.go", "Alpha\x00")
	d.put("wide.go", strings.Repeat("w", 100_000)+"Alpha"+strings.Repeat("v", 1_000)+"\n")
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "o.go"), []byte("Alpha"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(d.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args m
		want string
	}{
		{m{"pattern": "Alpha"}, "a.go:3: func Alpha() {}\nwide.go:1: …" + strings.Repeat("w", searchLine/3) + "Alpha" + strings.Repeat("v", searchLine-searchLine/3-5) + "…\n[1 files were passed over: no text, or larger than 16 MB]\n"},
		{m{"pattern": "(?i)alpha", "path": "src"}, "src/b.go:2: // alpha too\nsrc/deep/c.txt:1: ALPHA\n"},
		{m{"pattern": "(?i)alpha$", "glob": "*.txt"}, "src/deep/c.txt:1: ALPHA\n"},
		{m{"pattern": "too$"}, "src/b.go:2: // alpha too\n[1 files were passed over: no text, or larger than 16 MB]\n"},
		{m{"glob": "src/*.go"}, "src/b.go\n"},
		{m{"glob": "*.go"}, "a.go\nbin.go\nsrc/b.go\nwide.go\n"},
		{m{"glob": "*.go", "limit": 2}, "a.go\nbin.go\n[more follow; go on with offset 2]\n"},
		{m{"glob": "*.go", "limit": 2, "offset": 2}, "src/b.go\nwide.go\n"},
		{m{"pattern": "left out"}, "[nothing was found in 5 files]\n[1 files were passed over: no text, or larger than 16 MB]\n"},
		{m{"pattern": "func", "path": "a.go"}, "a.go:3: func Alpha() {}\n"},
		{m{"pattern": "Alpha", "path": filepath.Join(d.dir, "src")}, "[nothing was found in 2 files]\n"},
	} {
		if r := d.do("search_files", c.args); r.Err || r.Content != c.want {
			t.Errorf("%v:\n%s\nwant\n%s", c.args, r.Content, c.want)
		}
	}
	d.refused("search_files", m{"pattern": "("}, "RE2")
	d.refused("search_files", m{"glob": "["}, "glob")
	d.refused("search_files", m{"path": "nowhere"}, "no file or directory")
	d.refused("search_files", m{"path": outside}, "outside")
	d.refused("search_files", m{"path": "link"}, "outside")
}

func TestASearchEndsWithItsContext(t *testing.T) {
	d := newDesktop(t, FilesOptions{})
	for i := range 50 {
		d.put(fmt.Sprintf("%02d.txt", i), "x\n")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped by the user"))
	call := d.call
	call.Name, call.Args = "search_files", args(m{"pattern": "x"})
	if r := d.set.Run(ctx, call); !r.Err || !strings.Contains(r.Content, "stopped by the user") {
		t.Errorf("%+v", r)
	}
}
