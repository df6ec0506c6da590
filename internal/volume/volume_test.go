package volume

import (
	"strings"
	"testing"

	"gatewayd/internal/procfs"
)

func TestEachFileSystemIsOfTheKindThatDecides(t *testing.T) {
	for _, c := range []struct {
		point, fstype    string
		temporary, first bool
		want             Kind
		says             string
	}{
		{"/", "ext4", false, false, Native, ""},
		{"/data", "ext4", false, true, Native, ""},
		{"/data", "xfs", false, true, Native, ""},
		{"/data", "overlay", false, true, Native, ""}, // somebody mounted one there and knows why
		{"/data", "fuseblk", false, true, Native, ""},
		{"/data", "virtiofs", false, true, Shared, "native volume"},
		{"/data", "fuse.virtiofs", false, true, Shared, "native volume"},
		{"/data", "9p", false, true, Shared, "native volume"},
		{"/data", "vboxsf", false, true, Shared, "native volume"},
		{"/data", "fuse.grpcfuse", false, true, Shared, "native volume"},
		{"/data", "fakeowner", false, true, Shared, "native volume"},
		{"/data", "nfs4", false, true, Network, "local disk"},
		{"/data", "cifs", false, true, Network, "local disk"},
		{"/data", "fuse.sshfs", false, true, Network, "local disk"},
		{"/data", "fuse.gcsfuse", false, true, Program, "native volume"},
		{"/data", "fuse", false, true, Program, "native volume"},
		{"/", "overlay", false, true, Layer, "mount a volume"},
		{"/", "overlay", false, false, Layer, "mount a volume"},
		{"/", "btrfs", false, true, Layer, "mount a volume"}, // an engine that keeps its layers so
		{"/", "fuse.fuse-overlayfs", false, true, Layer, "mount a volume"},
		{"/", "overlay", true, true, Native, ""},
		{"/data", "tmpfs", false, true, Memory, "mount a volume"},
		{"/tmp", "tmpfs", true, false, Native, ""},
		{"/tmp", "9p", true, false, Shared, "native volume"},
	} {
		v := Volume{Mount: procfs.Mount{Point: c.point, FSType: c.fstype}, Dir: "/data", Kind: kindOf(procfs.Mount{Point: c.point, FSType: c.fstype}, c.temporary, c.first)}
		what, remedy := v.Trouble()
		if v.Kind != c.want || !strings.Contains(remedy, c.says) || (what == "") != (c.says == "") {
			t.Errorf("%+v: %s; %q; %q", c, v.Kind, what, remedy)
		}
		if reason, _ := v.Kind.NoWAL(c.fstype); (reason != "") != (v.Kind == Shared || v.Kind == Network || v.Kind == Program) {
			t.Errorf("%s: WAL: %q", c.fstype, reason)
		}
	}
}
