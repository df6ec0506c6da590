package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Real mounts: what the kernel's own table says of them is what is told.
func TestARealMountIsRecognised(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"memory", "lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(fstype, dir, options string) {
		t.Helper()
		if err := unix.Mount(fstype, dir, fstype, 0, options); err != nil {
			t.Skipf("SKIPPED: no %s can be mounted here (%v), so nothing is proven about a real one", fstype, err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	at := func(name string) string { return filepath.Join(top, name) }
	mount("tmpfs", at("memory"), "")
	mount("overlay", at("merged"), "lowerdir="+at("lower")+",upperdir="+at("upper")+",workdir="+at("work"))
	for dir, want := range map[string]string{at("memory/below/it"): "tmpfs", at("merged/home"): "overlay"} {
		v, err := Of(dir)
		if err != nil || v.FSType != want || !strings.HasPrefix(dir, v.Point) || v.Dir != dir {
			t.Errorf("%s: %+v %v", dir, v, err)
		}
		// Below the directory of temporary files nothing is expected to stay; elsewhere the memory would be told.
		if kind := kindOf(v.Mount, false, false); (kind == Memory) != (want == "tmpfs") {
			t.Errorf("%s elsewhere: %s", want, kind)
		}
		if v.Kind != Native {
			t.Errorf("%s: %s", dir, v.Kind)
		}
	}
}
