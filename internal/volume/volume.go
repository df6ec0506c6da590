// Package volume tells what a directory lies on, and what that means for what is kept there: whether SQLite's WAL holds, and whether
// the directory outlives the container. It knows the kinds of file systems; it opens and changes nothing.
package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
)

// Kind is what sort of place a directory is.
type Kind string

const (
	Native  Kind = "native"  // a disk of this kernel's own
	Shared  Kind = "shared"  // a folder of another kernel, behind a virtual machine's wall
	Network Kind = "network" // a folder of another machine
	Program Kind = "program" // served by a program through FUSE: nobody knows what it does with mapped pages
	Layer   Kind = "layer"   // the container's own, gone with it
	Memory  Kind = "memory"  // gone with the mount
)

// The file systems on which WAL cannot work, because its index is shared memory: two kernels do not see each
// other's mapped pages, and nothing reports it, so the pragma's own error would come too late or never.
var (
	sharedTypes = set("virtiofs", "fuse.virtiofs", "9p", "9p2000", "9p2000.l", "9p2000.u",
		"vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "prl_fs", "drvfs", "fuse.osxfs", "fuse.grpcfuse", "fakeowner")
	networkTypes = set("nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "ceph",
		"fuse.ceph", "glusterfs", "fuse.glusterfs", "afs", "lustre", "gfs2", "ocfs2")
	// layerTypes are what containers' root file systems are made of.
	layerTypes = set("overlay", "aufs", "fuse.fuse-overlayfs")
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// OfType gives the kind that a type of file system, as the mount table names it, has by itself. An unknown one is native.
func OfType(fstype string) Kind {
	switch {
	case sharedTypes[fstype]:
		return Shared
	case networkTypes[fstype]:
		return Network
	case layerTypes[fstype]: // of whatever it is laid over, mostly a disk
	case fstype == "fuse", strings.HasPrefix(fstype, "fuse."):
		return Program
	}
	return Native
}

// NoWAL says why WAL must not be used on a kind of file system, and what the person can do; "" is fine.
func (k Kind) NoWAL(fstype string) (reason, remedy string) {
	switch k {
	case Shared:
		return fmt.Sprintf("%s is shared between two kernels, where WAL loses rows unseen", fstype),
			"use a native volume instead of a bind mount from the host"
	case Network:
		return fmt.Sprintf("%s is a network file system, where WAL loses rows unseen", fstype),
			"use a local disk; if only this machine writes, set database.journal_mode_force: wal"
	case Program:
		return fmt.Sprintf("%s is served by a program, and whether WAL's shared memory holds there is not known", fstype),
			"use a native volume; if you know that it holds, set database.journal_mode_force: wal"
	}
	return "", ""
}

// Volume is what one directory lies on.
type Volume struct {
	procfs.Mount
	Dir  string
	Kind Kind
}

// Of looks at a directory, or at the nearest one above it that is there.
func Of(dir string) (Volume, error) {
	there := nearest(dir)
	mount, err := procfs.MountOf(there)
	if err != nil {
		return Volume{}, err
	}
	return Volume{Mount: mount, Dir: dir, Kind: kindOf(mount, temporary(there), first())}, nil
}

// first tells whether pid 1 runs this program, in this process or in the one that it was called beside: nowhere but in a container does it.
func first() bool {
	one, err := procfs.ReadStat(1)
	self, serr := procfs.ReadStat(os.Getpid())
	return err == nil && serr == nil && one.Comm == self.Comm
}

// kindOf: what is below the directory of temporary files is meant to go. Where this program is
// pid 1 the root is the container's layer, whatever the engine made it of.
func kindOf(mount procfs.Mount, temporary, first bool) Kind {
	kind := OfType(mount.FSType)
	switch {
	case kind != Native, temporary:
	case mount.Point == "/" && (layerTypes[mount.FSType] || first) && !mutation.On("layer-is-a-volume"):
		return Layer
	case mount.FSType == "tmpfs", mount.FSType == "ramfs":
		return Memory
	}
	return kind
}

// Trouble says in one clause what is wrong with keeping a home here, and what to do about it; "" is fine. It is the same at the
// start, in doctor and in health.
func (v Volume) Trouble() (what, remedy string) {
	switch v.Kind {
	case Layer:
		return fmt.Sprintf("%s is inside the container's own layer: all of it is gone with the container", v.Dir),
			"mount a volume there, such as `-v gatewayd:" + v.Dir + "`"
	case Memory:
		return fmt.Sprintf("%s is memory (%s): all of it is gone with the next start of this machine or container", v.Dir, v.FSType),
			"mount a volume there, or give another --home"
	}
	if reason, remedy := v.Kind.NoWAL(v.FSType); reason != "" {
		return fmt.Sprintf("%s lies on %s, mounted at %s: %s; new databases are kept in rollback mode", v.Dir, v.FSType, v.Point, reason), remedy
	}
	return "", ""
}

// nearest is the nearest directory that is there.
func nearest(path string) string {
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		if _, err := os.Stat(path); err == nil {
			break
		}
	}
	return path
}

func temporary(dir string) bool {
	rel, err := filepath.Rel(os.TempDir(), dir)
	return err == nil && filepath.IsLocal(rel)
}
