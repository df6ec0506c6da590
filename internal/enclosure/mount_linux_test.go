package enclosure

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A bind mount has the device number of what it shows, so only the mount table tells it from a directory.
func TestATreeThatSomethingIsMountedInStays(t *testing.T) {
	d, root, precious := grounds(t)
	at := filepath.Join(root, "t_1", "deep")
	if err := unix.Mount(precious, at, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("NOT TESTED: mounts, because this process may make none: %v", err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	for _, path := range []string{filepath.Join(root, "t_1"), at} {
		if err := d.Remove(path); !errors.Is(err, ErrMounted) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
