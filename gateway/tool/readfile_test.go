package tool

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadFileReadsPagesAndStaysInside(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.txt", "one\ntwo\nthree")
	write("long.txt", strings.Repeat("x\n", 700))
	write("wide.txt", strings.Repeat("y", 9_000)+"\nend\n")
	write("bin", "a\x00b")
	write(".env", "K=secret")
	write("empty", "")
	outside := filepath.Join(t.TempDir(), "out.txt")
	if err := os.WriteFile(outside, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": outside, "hidden": ".env"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := NewSet(ReadFile{Dir: dir})
	for _, c := range []struct {
		args map[string]any
		want string
		err  bool
	}{
		{map[string]any{"path": "a.txt"}, "     1\tone\n     2\ttwo\n     3\tthree\n", false},
		{map[string]any{"path": "a.txt", "offset": 2, "limit": 1}, "     2\ttwo\n[… more lines follow; go on with offset 3]\n", false},
		{map[string]any{"path": filepath.Join(dir, "a.txt"), "offset": 3}, "     3\tthree\n", false},
		{map[string]any{"path": "a.txt", "offset": 9}, "[a.txt has 3 lines]", false},
		{map[string]any{"path": "empty"}, "[empty has 0 lines]", false},
		{map[string]any{"path": "long.txt"}, "go on with offset 501", false},
		{map[string]any{"path": "wide.txt"}, "bytes of this line left out]\n     2\tend\n", false},
		{map[string]any{"path": "nope"}, "there is no file nope", true},
		{map[string]any{"path": ""}, "path is empty", true},
		{map[string]any{"path": "bin"}, "binary file", true},
		{map[string]any{"path": "."}, "not a regular file", true},
		{map[string]any{"path": "fifo"}, "not a regular file", true},
		{map[string]any{"path": ".env"}, "may hold secrets", true},
		{map[string]any{"path": "hidden"}, "may hold secrets", true},
		{map[string]any{"path": "state.db-wal"}, "may hold secrets", true},
		{map[string]any{"path": outside}, "outside of the working directory", true},
		{map[string]any{"path": "../" + filepath.Base(filepath.Dir(outside)) + "/out.txt"}, "outside of", true},
		{map[string]any{"path": "link"}, "outside of", true},
	} {
		r := set.Run(t.Context(), Call{Name: "read_file", Args: args(c.args), Policy: Policy{Context: "api"}})
		if !strings.Contains(r.Content, c.want) || r.Err != c.err || r.Effect != EffectNone {
			t.Errorf("%v: %.200q (error %v)", c.args, r.Content, r.Err)
		}
		if strings.Contains(r.Content, "K=secret") || strings.Contains(r.Content, "\toutside") {
			t.Errorf("%v gave away %q", c.args, r.Content)
		}
	}
}
