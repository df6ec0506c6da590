package procfs

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// A descriptor that was closed while it was looked at holds nothing. One that cannot be looked at may hold anything.
func TestOnlyADescriptorThatIsGoneHoldsNothing(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "held")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	defer func() { look = inodeIn }()
	for _, tc := range []struct {
		errno syscall.Errno
		found int
	}{{syscall.ENOENT, 0}, {syscall.ESRCH, 0}, {syscall.EACCES, 1}, {syscall.EIO, 1}, {syscall.ELOOP, 1}} {
		look = func(*os.File, string) (uint64, uint64, error) { return 0, 0, tc.errno }
		found, err := OpenFiles(func(target string) bool { return target == file.Name() })
		if err != nil || len(found) != tc.found {
			t.Errorf("%v: found %+v, %v", tc.errno, found, err)
		}
		if len(found) == 1 && !errors.Is(found[0].Err, tc.errno) {
			t.Errorf("%v: told as %v", tc.errno, found[0].Err)
		}
	}
}

func TestACommandLineIsToldAsItWasTyped(t *testing.T) {
	if line, err := Command(os.Getpid()); err != nil || line == "" {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := Command(1 << 30); !Gone(err) {
		t.Errorf("of nobody: %v", err)
	}
}
