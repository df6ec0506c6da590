package enclosure

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// grounds is a directory of ours with a neighbour that must survive.
func grounds(t *testing.T) (d *Dir, root, precious string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, precious = filepath.Join(base, "workspaces"), filepath.Join(base, "precious")
	for _, dir := range []string{filepath.Join(root, "t_1", "deep"), filepath.Join(root, "t_2"), filepath.Join(precious, "src")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(precious, "src", "main.c"), "int main")
	if d, err = Open(root); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		if _, err := os.Stat(filepath.Join(precious, "src", "main.c")); err != nil {
			t.Error("the neighbour's source is gone")
		}
	})
	return d, root, precious
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, at string) string {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestNothingOutsideIsRemoved(t *testing.T) {
	d, root, precious := grounds(t)
	base := filepath.Dir(root)
	out := link(t, precious, filepath.Join(root, "t_out"))
	over := link(t, "..", filepath.Join(root, "t_up"))
	alias := link(t, root, filepath.Join(base, "alias"))
	inner := link(t, "t_2", filepath.Join(root, "t_inner"))
	write(t, filepath.Join(root, "t_2", "kept"), "x")
	twin := root + "2"
	if err := os.MkdirAll(filepath.Join(twin, "t_1"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		root, root + "/", root + "/.", base, "/", "", "t_1", "./t_1", precious,
		out, filepath.Join(out, "src"), over, filepath.Join(over, "precious"), filepath.Join(alias, "t_1"),
		root + "/../precious", root + "/t_1/../../precious", root + "/t_1/..", root + "/t_1/./deep", root + "//t_1", root + "/t_1/../t_2",
		filepath.Join(twin, "t_1"), filepath.Join(inner, "kept"), "\xff\xfe", root + "/\xff/../../precious",
	} {
		if err := d.Remove(path); !errors.Is(err, ErrOutside) {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, there := range []string{filepath.Join(root, "t_1", "deep"), filepath.Join(root, "t_2", "kept"), filepath.Join(twin, "t_1"), out} {
		if _, err := os.Lstat(there); err != nil {
			t.Errorf("%s is gone", there)
		}
	}
}

func TestARemovalTakesLinksAwayAndNotWhatTheyPointTo(t *testing.T) {
	d, root, precious := grounds(t)
	link(t, precious, filepath.Join(root, "t_1", "out"))
	link(t, filepath.Join(precious, "src", "main.c"), filepath.Join(root, "t_1", "deep", "file"))
	if err := d.Remove(filepath.Join(root, "t_1")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root, "t_1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := d.Remove(filepath.Join(root, "t_1")); err != nil {
		t.Errorf("removing it again: %v", err)
	}
}

func TestNamesAreBytes(t *testing.T) {
	d, root, _ := grounds(t)
	composed, decomposed, raw := "caf\u00e9", "cafe\u0301", "caf\xe9"
	for _, name := range []string{composed, decomposed, raw} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Skip("NOT TESTED: this file system does not take names as bytes")
		}
	}
	for i, name := range []string{composed, raw, decomposed} {
		if err := d.Remove(filepath.Join(root, name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		entries, _ := os.ReadDir(root)
		if len(entries) != 2+2-i {
			t.Errorf("after %q: %v", name, entries)
		}
	}
}

func TestTheDirectoryItselfIsNoLinkOutOfItsParent(t *testing.T) {
	_, root, precious := grounds(t)
	if d, err := Open(link(t, precious, filepath.Join(root, "attachments"))); err == nil {
		d.Close()
		t.Error("a link to the neighbour was opened as a directory of ours")
	}
}

func TestReadOnlyDirectoriesGoToo(t *testing.T) {
	d, root, _ := grounds(t)
	write(t, filepath.Join(root, "t_1", "deep", "cached"), "x")
	if err := os.Chmod(filepath.Join(root, "t_1", "deep"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(filepath.Join(root, "t_1")); err != nil {
		t.Error(err)
	}
}

func TestMeasureCountsFilesAndFollowsNothing(t *testing.T) {
	d, root, precious := grounds(t)
	write(t, filepath.Join(root, "t_1", "a"), "12345")
	write(t, filepath.Join(root, "t_1", "deep", "b"), "123")
	write(t, filepath.Join(root, "t_1", "deep", "declared"), "1234567")
	link(t, precious, filepath.Join(root, "t_1", "out"))
	got := d.Measure("t_1", func(file string) bool { return file == "deep/declared" })
	if got.Bytes != 8 || got.Files != 2 || len(got.Sample) != 2 {
		t.Errorf("%+v", got)
	}
}
